package conf

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// quotedKeys allows quoted keys in the block form of a map. Topology segments of real drivers need them:
//
//	segments { "topology.example.com/zone" = "a" }
//
// The syntax allows quoted keys only in `segments = { ... }`. So quotedKeys replaces the space before the
// brace by an equals sign. The source keeps its length, and diagnostics keep their positions.
func quotedKeys(filename string, src []byte) []byte {
	if !bytes.ContainsRune(src, '"') {
		return src
	}

	tokens, diags := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	// A file with a fault stays as it is: the parser reports the fault in it.
	if diags.HasErrors() {
		return src
	}

	out := src
	for i := range tokens {
		if !opensBlock(tokens, i) || !hasQuotedKey(tokens[i+1:]) {
			continue
		}

		gap := tokens[i].Range.Start.Byte - 1
		if gap < 0 ||
			src[gap] != ' ' && src[gap] != '\t' {
			continue // nothing to replace
		}

		// The source belongs to the caller, and most files need no change.
		if &out[0] == &src[0] {
			out = bytes.Clone(src)
		}

		out[gap] = '='
	}

	return out
}

// opensBlock reports whether the token is the brace of a block without labels.
func opensBlock(tokens hclsyntax.Tokens, i int) bool {
	if i == 0 ||
		tokens[i].Type != hclsyntax.TokenOBrace ||
		tokens[i-1].Type != hclsyntax.TokenIdent {
		return false
	}
	return i == 1 || startsItem(tokens[i-2].Type)
}

// startsItem reports whether an argument or a block may follow the token.
func startsItem(before hclsyntax.TokenType) bool {
	switch before {
	case hclsyntax.TokenNewline, hclsyntax.TokenComment, hclsyntax.TokenOBrace:
		return true
	}
	return false
}

// hasQuotedKey reports whether the body at the start of the tokens has an argument whose name is quoted.
func hasQuotedKey(body hclsyntax.Tokens) bool {
	depth := 0
	before := hclsyntax.TokenOBrace
	for _, t := range body {
		// A quote after another token is a value, or the label of a block.
		if t.Type == hclsyntax.TokenOQuote &&
			depth == 0 && startsItem(before) {
			return true
		}
		depth += levels[t.Type]
		if depth < 0 {
			return false
		}
		before = t.Type
	}
	return false
}
