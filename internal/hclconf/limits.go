package hclconf

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth/structs"
)

// The parsers recurse and have no limits of their own: a megabyte of "!" overflows the stack, which no
// recover catches. So a file is measured, without recursion, before it is parsed.
const (
	maxSource  = structs.MaxSource
	maxNesting = structs.MaxNesting // brackets, and templates, within one another
	maxRepeats = 5000               // of each operator that may stand in a row without brackets
)

// unreadable says why a file is not to be parsed, "" when it is.
func unreadable(filename string, src []byte, isJSON bool) string {
	switch {
	case len(src) > maxSource:
		return fmt.Sprintf("the file has %d bytes; expected at most %d", len(src), maxSource)
	case !utf8.Valid(src):
		return "the file is not text in UTF-8"
	case isJSON && jsonDepth(src) > maxNesting:
		return fmt.Sprintf("the file nests too deep; expected at most %d levels", maxNesting)
	case isJSON:
		return ""
	}
	return unreadableTokens(filename, src)
}

var opening = map[hclsyntax.TokenType]int{
	hclsyntax.TokenOBrace: 1, hclsyntax.TokenCBrace: -1,
	hclsyntax.TokenOBrack: 1, hclsyntax.TokenCBrack: -1,
	hclsyntax.TokenOParen: 1, hclsyntax.TokenCParen: -1,
	hclsyntax.TokenTemplateInterp: 1, hclsyntax.TokenTemplateControl: 1, hclsyntax.TokenTemplateSeqEnd: -1,
}

// repeating are the tokens of which a long row, without any bracket, makes a deep tree.
var repeating = []hclsyntax.TokenType{hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion,
	hclsyntax.TokenTemplateControl, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
	hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp,
	hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan, hclsyntax.TokenLessThanEq,
	hclsyntax.TokenGreaterThanEq, hclsyntax.TokenOBrack}

func unreadableTokens(filename string, src []byte) string {
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos) // its faults are the parser's too
	depth, counts := 0, map[hclsyntax.TokenType]int{}
	for _, t := range tokens {
		depth = max(0, depth+opening[t.Type])
		counts[t.Type]++
		switch {
		case depth > maxNesting:
			return fmt.Sprintf("line %d nests too deep; expected at most %d levels", t.Range.Start.Line, maxNesting)
		case counts[t.Type] > maxRepeats && slices.Contains(repeating, t.Type):
			return fmt.Sprintf("too many %q; expected at most %d in one file", t.Bytes, maxRepeats)
		}
	}
	return ""
}

// jsonDepth is how deep a JSON text nests, brackets within strings left out.
func jsonDepth(src []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
