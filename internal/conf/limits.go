package conf

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth/structs"
)

// The parsers recurse and have no limits of their own: a megabyte of "!" overflows the stack, which no
// recover catches. So the package measures a file without recursion before it parses the file.
const (
	maxSource  = structs.MaxSource
	maxNesting = structs.MaxNesting // levels of brackets and templates
)

// whyUnreadable returns the reason why a file must not be parsed with its position, or "".
func whyUnreadable(filename string, src []byte, isJSON bool) (at hcl.Range, reason string) {
	at = hcl.Range{Filename: filename, Start: hcl.InitialPos}
	switch {
	case len(src) > maxSource:
		return at, fmt.Sprintf("the file has %d bytes; expected at most %d", len(src), maxSource)
	case !utf8.Valid(src):
		return at, "the file is not text in UTF-8"
	case isJSON:
		return at, whyUnreadableJSON(src)
	}
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos) // the parser reports its faults
	return tokenCounts{}.add(tokens)
}

// whyUnreadableJSON returns the reason why a text must not be parsed, or "".
func whyUnreadableJSON(src []byte) string {
	depth, parts := measureJSON(src)
	switch {
	case depth > maxNesting:
		return tooDeep
	case parts > structs.MaxParts:
		return tooMany
	}
	return ""
}

var tooMany = fmt.Sprintf("the file has too many parts; "+
	"expected at most %d brackets, arguments and elements", structs.MaxParts)

var tooDeep = fmt.Sprintf("the file nests too deep; expected at most %d levels", maxNesting)

// levels has the change of the nesting depth at a token.
var levels = map[hclsyntax.TokenType]int{
	hclsyntax.TokenOBrace:          1,
	hclsyntax.TokenCBrace:          -1,
	hclsyntax.TokenOBrack:          1,
	hclsyntax.TokenCBrack:          -1,
	hclsyntax.TokenOParen:          1,
	hclsyntax.TokenCParen:          -1,
	hclsyntax.TokenTemplateInterp:  1,
	hclsyntax.TokenTemplateControl: 1,
	hclsyntax.TokenTemplateSeqEnd:  -1,
}

// repeating lists the tokens that nest when they are repeated without brackets.
var repeating = []hclsyntax.TokenType{
	hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion, hclsyntax.TokenTemplateControl,
	hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
	hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
	hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan, hclsyntax.TokenLessThanEq,
	hclsyntax.TokenGreaterThanEq, hclsyntax.TokenOBrack,
}

// partTokens lists the tokens of which each part of a file needs one.
var partTokens = []hclsyntax.TokenType{
	hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
	hclsyntax.TokenEqual, hclsyntax.TokenColon, hclsyntax.TokenComma,
}

// tokenCounts has the number of tokens of each type in a file.
type tokenCounts map[hclsyntax.TokenType]int

// add counts tokens. It returns the reason why they must not be parsed with its position, or "".
func (c tokenCounts) add(tokens hclsyntax.Tokens) (at hcl.Range, reason string) {
	depth, parts := 0, 0
	// The parts of earlier calls count: the strings of a JSON file are counted one by one.
	for _, p := range partTokens {
		parts += c[p]
	}

	for _, t := range tokens {
		// A file may close more brackets than it opens. The parser reports that.
		depth = max(0, depth+levels[t.Type])
		c[t.Type]++
		if depth > maxNesting {
			return t.Range, tooDeep
		}

		if c[t.Type] > structs.MaxRepeats &&
			slices.Contains(repeating, t.Type) {
			return t.Range, fmt.Sprintf("too many %q; expected at most %d in one file",
				t.Bytes, structs.MaxRepeats)
		}

		if slices.Contains(partTokens, t.Type) {
			parts++
		}

		if parts > structs.MaxParts {
			return t.Range, tooMany
		}
	}

	return at, ""
}

// measureJSON returns the nesting depth of a JSON text, and its objects, lists and further properties and
// elements. Brackets and commas within strings do not count.
func measureJSON(src []byte) (deepest, parts int) {
	depth := 0
	quoted := false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		// An escaped character ends no string.
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			parts++
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		case c == ',':
			parts++
		}
	}

	return deepest, parts
}
