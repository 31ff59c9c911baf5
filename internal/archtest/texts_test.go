package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// textFields are the ends of the names of the fields and methods that have a text for people.
var textFields = []string{"Description", "Reason", "Message"}

// textSearches are the functions and methods that compare or search texts.
var textSearches = []string{
	"strings.Contains", "strings.ContainsAny", "strings.Count", "strings.Cut", "strings.CutPrefix",
	"strings.CutSuffix", "strings.EqualFold", "strings.HasPrefix", "strings.HasSuffix", "strings.Index",
	"strings.LastIndex", "slices.Contains", "slices.Index", "MatchString", "FindStringSubmatch",
}

// shownOnce are the functions that search a text to leave out what it shows already. The texts are those of
// plugins and drivers.
var shownOnce = []string{"api/show.ProblemText", "cli/watch.EndText"}

// TestTexts_DecideNothing: a text for people may change at any time, so code decides by typed fields.
func TestTexts_DecideNothing(t *testing.T) {
	found := map[string]bool{}
	eachDecl(t, func(name string, d ast.Decl) {
		if len(textDecisions(d)) > 0 {
			found[name] = true
		}
	})
	checkExceptions(t, "a decision on a text for people, where a typed field is needed", found, shownOnce)
}

// textDecisions returns the nodes that compare a text field or search it.
func textDecisions(root ast.Node) (found []ast.Node) {
	for n := range ast.Preorder(root) {
		decides := false
		switch n := n.(type) {
		case *ast.BinaryExpr:
			decides = (n.Op == token.EQL || n.Op == token.NEQ) && comparesText(n.X, n.Y)
		case *ast.SwitchStmt:
			decides = n.Tag != nil && textFieldIn(n.Tag) != ""
		case *ast.CallExpr:
			decides = searchesText(n)
		}
		if decides {
			found = append(found, n)
		}
	}
	return found
}

// comparesText reports whether one of two operands has a text field. Two comparisons are no decisions on its
// words: that with "" tells whether there is a text, and that with the same field finds changes of a row.
func comparesText(x, y ast.Expr) bool {
	return textFieldIn(x) != textFieldIn(y) && !isEmptyText(x) && !isEmptyText(y)
}

func isEmptyText(x ast.Expr) bool {
	l, ok := x.(*ast.BasicLit)
	return ok && (l.Value == `""` || l.Value == "``")
}

func searchesText(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := f.Sel.Name
	if p, ok := f.X.(*ast.Ident); ok && (p.Name == "strings" || p.Name == "slices") {
		name = p.Name + "." + name
	}
	return slices.Contains(textSearches, name) &&
		slices.ContainsFunc(call.Args, func(x ast.Expr) bool { return textFieldIn(x) != "" })
}

// textFieldIn returns the name of a text field in an expression, "" if there is none. The length of a text is
// not the text.
func textFieldIn(x ast.Expr) (name string) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.Ident)
			return !ok || f.Name != "len"
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			for _, end := range textFields {
				if strings.HasSuffix(n.Sel.Name, end) {
					name = n.Sel.Name
				}
			}
		}
		return true
	})
	return name
}

func TestTextDecisions_FindsDecisions(t *testing.T) {
	for statement, want := range map[string]int{
		`x := a.DesiredDescription == "replaced"`:                1,
		`x := a.DesiredDescription != schema.NodeIsDown`:         1,
		`x := schema.NodeIsDown == a.ClientDescription`:          1,
		`x := a.DesiredDescription == a.ClientDescription`:       1,
		`x := strings.ToLower(e.Message) == "gone"`:              1,
		`switch e.Reason { case "gone": }`:                       1,
		`switch { case e.Reason == "gone", e.Reason == "lost":}`: 2,
		`x := strings.Contains(e.Message, "gone")`:               1,
		`x := strings.HasPrefix(status.Message(), "gone")`:       1,
		`x := strings.EqualFold(word, m.GetReason())`:            1,
		`x := slices.Contains(words, e.Reason)`:                  1,
		`x := gone.MatchString(e.Message)`:                       1,
		`x := e.Message == ""`:                                   0,
		`x := old.HealthDescription != new.HealthDescription`:    0,
		`x := len(e.Message) == 7`:                               0,
		`x := strings.TrimSpace(e.Message)`:                      0,
		`x := structs.Cut(why, structs.MaxReason)`:               0,
		`x := a.StopCause == structs.StopReplaced`:               0,
	} {
		if got := len(textDecisions(parseBody(t, statement))); got != want {
			t.Errorf("%s: got %d decisions on a text, want %d", statement, got, want)
		}
	}
}
