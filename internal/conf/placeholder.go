package conf

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// keepPlaceholders makes each ${name} in the texts of an item a part of the text, also where an argument of a
// map is a block. In JSON it is one already.
func keepPlaceholders(it *item) {
	var node any = it.expr
	if it.body != nil {
		node = it.body
	}
	// The body of a JSON file is another type, in which no template was parsed.
	if syntax, native := node.(hclsyntax.Node); native {
		_ = hclsyntax.Walk(syntax, placeholders{}) // it reports nothing
	}
}

// placeholders is the hclsyntax.Walker of keepPlaceholders.
type placeholders struct{}

// Enter replaces the names in a template.
func (placeholders) Enter(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case *hclsyntax.TemplateExpr:
		for i, part := range n.Parts {
			n.Parts[i] = asText(part)
		}
	case *hclsyntax.TemplateWrapExpr:
		n.Wrapped = asText(n.Wrapped)
	}
	return nil
}

// Exit does nothing.
func (placeholders) Exit(hclsyntax.Node) hcl.Diagnostics { return nil }

// asText returns the text of a name with its brackets, and any other expression unchanged.
func asText(e hclsyntax.Expression) hclsyntax.Expression {
	name, isName := e.(*hclsyntax.ScopeTraversalExpr)
	if !isName {
		return e
	}
	text := hclwrite.TokensForTraversal(name.Traversal).Bytes()
	return &hclsyntax.LiteralValueExpr{
		Val:      cty.StringVal("${" + string(text) + "}"),
		SrcRange: name.SrcRange,
	}
}
