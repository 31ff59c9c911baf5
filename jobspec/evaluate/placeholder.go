package evaluate

import (
	"bytes"
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/jobspec/functions"
)

// The form of a template of an environment variable, as the dialect writes it.
var envPlaceholder = regexp.MustCompile(`\$\{[ \t]*env[ \t]+"([A-Za-z_][A-Za-z0-9_]*)"[ \t]*\}`)

// plainEnv replaces `${env "X"}`, which is not HCL2, by a traversal of the same length, so that positions
// stay the same. A preparation takes the text of the string from the source.
func plainEnv(src []byte) []byte {
	out := bytes.Clone(src)
	for _, m := range envPlaceholder.FindAllSubmatchIndex(src, -1) {
		if m[0] > 0 && src[m[0]-1] == '$' {
			continue // $${ is an escape
		}
		n := copy(out[m[0]:], "${env.")
		n += copy(out[m[0]+n:], src[m[2]:m[3]])
		for i := m[0] + n; i < m[1]-1; i++ {
			out[i] = '_'
		}
	}
	return out
}

// atRuntime reports whether the scheduler, the node that runs the task, or a shell in the task resolves a
// traversal. A name without a dot is a variable of the task's environment.
func atRuntime(t hcl.Traversal) bool {
	switch t.RootName() {
	case "attr", "node", "meta", "env", "device":
		return true
	case "var", "local":
		return false
	}
	return len(t) == 1
}

// preparation walks the syntax of a file before its evaluation: it replaces runtime placeholders in templates
// by literal text, and all expressions by metered ones.
type preparation struct {
	src    []byte
	budget *functions.Budget
	bound  []map[string]struct{} // the names that the loops and dynamic blocks around bind
}

// Enter replaces placeholders.
func (p *preparation) Enter(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case hclsyntax.ChildScope:
		p.bound = append(p.bound, n.LocalNames)
	case *hclsyntax.Block:
		p.bound = append(p.bound, iteratorNames(n))
	case *hclsyntax.TemplateExpr:
		for i, part := range n.Parts {
			n.Parts[i] = p.literalText(part)
		}
	case *hclsyntax.TemplateWrapExpr:
		n.Wrapped = p.literalText(n.Wrapped)
	}
	return nil
}

// Exit replaces expressions.
func (p *preparation) Exit(node hclsyntax.Node) hcl.Diagnostics {
	switch node.(type) {
	case hclsyntax.ChildScope, *hclsyntax.Block:
		// Enter has added one for each of these.
		p.bound = p.bound[:len(p.bound)-1]
	}
	p.budget.Meter(node)
	return nil
}

// literalText returns the literal text of a runtime placeholder, and another expression unchanged.
func (p *preparation) literalText(e hclsyntax.Expression) hclsyntax.Expression {
	t, ok := e.(*hclsyntax.ScopeTraversalExpr)
	if !ok || !atRuntime(t.Traversal) {
		return e
	}
	// A loop may bind a name such as node, which is then a value of the file.
	for _, names := range p.bound {
		if _, local := names[t.Traversal.RootName()]; local {
			return e
		}
	}
	from := t.SrcRange.Start.Byte
	to := t.SrcRange.End.Byte
	text := "${" + string(p.src[from:to]) + "}"
	return &hclsyntax.LiteralValueExpr{
		Val:      cty.StringVal(text),
		SrcRange: t.SrcRange,
	}
}

// iteratorNames returns the name that a dynamic block binds in its content, nil for another block.
func iteratorNames(b *hclsyntax.Block) map[string]struct{} {
	if b.Type != "dynamic" || len(b.Labels) != 1 {
		return nil
	}
	return map[string]struct{}{iteratorName(b): {}}
}

// iteratorName returns the iterator of a dynamic block with one label.
func iteratorName(b *hclsyntax.Block) string {
	a, given := b.Body.Attributes["iterator"]
	if !given {
		return b.Labels[0]
	}
	return hcl.ExprAsKeyword(a.Expr)
}
