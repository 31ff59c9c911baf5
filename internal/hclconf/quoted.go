package hclconf

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// quotedKeys lets the block form of a map have quoted keys, as the topology segments of real drivers need
// them:
//
//	segments { "topology.example.com/zone" = "a" }
//
// The syntax has quoted keys only in `segments = { ... }`, so the space before the brace becomes the equals
// sign. The length of the source stays the same, and with it every position in a diagnostic.
func quotedKeys(filename string, src []byte) []byte {
	if !bytes.ContainsRune(src, '"') {
		return src
	}
	tokens, diags := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	if diags.HasErrors() {
		return src
	}
	out := src
	for i := range tokens {
		if !opensBlock(tokens, i) || !hasQuotedKey(tokens[i+1:]) {
			continue
		}
		gap := tokens[i].Range.Start.Byte - 1
		if gap < 0 || src[gap] != ' ' && src[gap] != '\t' {
			continue
		}
		if &out[0] == &src[0] {
			out = bytes.Clone(src)
		}
		out[gap] = '='
	}
	return out
}

// opensBlock reports whether the token is the brace of a block without labels.
func opensBlock(tokens hclsyntax.Tokens, i int) bool {
	if tokens[i].Type != hclsyntax.TokenOBrace || i == 0 || tokens[i-1].Type != hclsyntax.TokenIdent {
		return false
	}
	return i == 1 || begins(tokens[i-2].Type)
}

// begins reports whether an argument or a block may follow the token.
func begins(before hclsyntax.TokenType) bool {
	return before == hclsyntax.TokenNewline || before == hclsyntax.TokenComment ||
		before == hclsyntax.TokenOBrace
}

// hasQuotedKey reports whether the body that the tokens begin has an argument whose name is quoted.
func hasQuotedKey(body hclsyntax.Tokens) bool {
	depth := 0
	before := hclsyntax.TokenOBrace
	for _, t := range body {
		switch t.Type {
		case hclsyntax.TokenOQuote:
			if depth == 0 && begins(before) {
				return true
			}
		case hclsyntax.TokenOBrace, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl, hclsyntax.TokenOBrack, hclsyntax.TokenOParen:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCBrack, hclsyntax.TokenCParen:
			depth--
			if depth < 0 {
				return false
			}
		}
		before = t.Type
	}
	return false
}
