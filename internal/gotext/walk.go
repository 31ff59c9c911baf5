package gotext

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"text/template"
	"text/template/parse"
)

// The ends of a pass of a loop. They get to the loop as errors, and never beyond it: the parser rejects them
// elsewhere.
var (
	errBreak    = errors.New("break outside of a loop")
	errContinue = errors.New("continue outside of a loop")
)

// walk executes a node and the nodes below it.
func (f *frame) walk(dot reflect.Value, node parse.Node) error {
	switch n := node.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			err := f.walk(dot, child)
			if err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode:
		_, err := f.out.Write(n.Text)
		return err
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return f.action(dot, n)
	case *parse.IfNode:
		return f.branch(dot, &n.BranchNode)
	case *parse.WithNode:
		return f.branch(dot, &n.BranchNode)
	case *parse.RangeNode:
		return f.loop(dot, n)
	case *parse.TemplateNode:
		return f.callTemplate(dot, n)
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	}
	return f.fail(node, "unknown node: %s", node)
}

// action evaluates a pipe, and prints its value unless it sets variables.
func (f *frame) action(dot reflect.Value, n *parse.ActionNode) error {
	value, err := f.pipe(dot, n.Pipe)
	if err != nil || len(n.Pipe.Decl) > 0 {
		return err
	}
	return f.print(n, value)
}

// print writes a value as fmt does, and what a pointer points to in place of the pointer.
func (f *frame) print(n parse.Node, value reflect.Value) error {
	if value.Kind() == reflect.Pointer {
		value, _ = indirect(value)
	}
	if !value.IsValid() {
		_, err := f.out.Write([]byte("<no value>"))
		return err
	}

	if !isText(value.Type()) {
		switch {
		case value.CanAddr() && isText(reflect.PointerTo(value.Type())):
			value = value.Addr()
		case value.Kind() == reflect.Chan || value.Kind() == reflect.Func:
			return f.fail(n, "can't print %s of type %s", n, value.Type())
		}
	}
	_, err := fmt.Fprint(f.out, value.Interface())
	return err
}

// isText reports whether values of a type have a text of their own.
func isText(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[error]()) || t.Implements(reflect.TypeFor[fmt.Stringer]())
}

// branch executes an if or a with. Variables that are set in it end with it.
func (f *frame) branch(dot reflect.Value, n *parse.BranchNode) error {
	inScope := len(f.variables)
	defer func() { f.variables = f.variables[:inScope] }()

	value, err := f.pipe(dot, n.Pipe)
	if err != nil {
		return err
	}
	holds, ok := isTrue(value)
	switch {
	case !ok:
		return f.fail(n.Pipe, "if/with can't use a value of type %s", value.Type())
	case holds && n.NodeType == parse.NodeWith:
		return f.walk(value, n.List)
	case holds:
		return f.walk(dot, n.List)
	case n.ElseList != nil:
		return f.walk(dot, n.ElseList)
	}
	return nil
}

// isTrue reports whether a value is not the zero value of its type, or empty.
func isTrue(value reflect.Value) (holds, ok bool) {
	value = behindInterface(value)
	if !value.IsValid() {
		return false, true
	}
	return template.IsTrue(value.Interface())
}

// callTemplate executes another template of the set.
func (f *frame) callTemplate(dot reflect.Value, n *parse.TemplateNode) error {
	value, err := f.pipe(dot, n.Pipe)
	if err != nil {
		return err
	}
	return f.placed(n, f.template(n.Name, value))
}

// placed returns an error with the place of a node if it lacks one. Errors of the writer have none.
func (f *frame) placed(n parse.Node, err error) error {
	failed, ok := errors.AsType[*Error](err)
	if ok && failed.Place == "" {
		return f.at(n, err)
	}
	return err
}

// loop executes a range.
func (f *frame) loop(dot reflect.Value, n *parse.RangeNode) error {
	inScope := len(f.variables)
	defer func() { f.variables = f.variables[:inScope] }()

	value, err := f.pipe(dot, n.Pipe)
	if err != nil {
		return err
	}

	list, _ := indirect(value)
	l := &loop{frame: f, n: n, inScope: len(f.variables)}
	err = l.over(list)
	switch {
	case errors.Is(err, errBreak):
		return nil
	case err != nil:
		return err
	case !l.passed && n.ElseList != nil:
		return f.walk(dot, n.ElseList)
	}
	return nil
}

// loop is a range that is being executed.
type loop struct {
	*frame
	n       *parse.RangeNode
	inScope int // the number of variables after the loop's
	passed  bool
}

// over makes a pass for each element of a list, in the order of a map's keys.
func (l *loop) over(list reflect.Value) error {
	switch {
	case !list.IsValid():
		return nil // nil has no element
	case list.Kind() == reflect.Slice || list.Kind() == reflect.Array:
		for i := range list.Len() {
			err := l.pass(reflect.ValueOf(i), list.Index(i))
			if err != nil {
				return err
			}
		}
		return nil
	case list.Kind() == reflect.Map:
		for _, key := range sortedKeys(list) {
			err := l.pass(key, list.MapIndex(key))
			if err != nil {
				return err
			}
		}
		return nil
	}
	return l.overSequence(list)
}

// overSequence makes a pass for each number below another, and for each value of a function.
func (l *loop) overSequence(list reflect.Value) (err error) {
	switch {
	case list.CanInt() || list.CanUint() || list.Kind() == reflect.Func && list.Type().CanSeq():
		if len(l.n.Pipe.Decl) > 1 {
			return l.fail(l.n.Pipe, "a value of type %s has no second variable in a range", list.Type())
		}
		for v := range list.Seq() {
			err = l.pass(v, v)
			if err != nil {
				return err
			}
		}
		return nil
	case list.Kind() == reflect.Func && list.Type().CanSeq2():
		for k, v := range list.Seq2() {
			if len(l.n.Pipe.Decl) < 2 {
				v = k
			}
			err = l.pass(k, v)
			if err != nil {
				return err
			}
		}
		return nil
	}
	return l.fail(l.n.Pipe, "range can't iterate over a value of type %s", list.Type())
}

// pass executes the body for one element.
func (l *loop) pass(key, element reflect.Value) error {
	l.passed = true
	if l.Bounds != nil {
		err := l.Bounds.Step()
		if err != nil {
			return err
		}
	}

	// The pipe has set the variables of the range to the list. An assignment has no variable of its own.
	switch names := l.n.Pipe.Decl; len(names) {
	case 1:
		l.set(names[0].Ident[0], element)
	case 2:
		l.set(names[0].Ident[0], key)
		l.set(names[1].Ident[0], element)
	}

	err := l.walk(element, l.n.List)
	l.variables = l.variables[:l.inScope]
	if errors.Is(err, errContinue) {
		return nil
	}
	return err
}

// set sets the value of the variable in scope with a name. It reports false if there is none.
func (f *frame) set(name string, value reflect.Value) bool {
	for i := range slices.Backward(f.variables) {
		if f.variables[i].name == name {
			f.variables[i].value = value
			return true
		}
	}
	return false
}

// get returns the value of the variable in scope with a name.
func (f *frame) get(name string) (value reflect.Value, ok bool) {
	for _, v := range slices.Backward(f.variables) {
		if v.name == name {
			return v.value, true
		}
	}
	return reflect.Value{}, false
}

// sortedKeys returns the keys of a map in their order.
func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), compareKeys)
}

func compareKeys(a, b reflect.Value) int {
	a, b = behindInterface(a), behindInterface(b)
	switch {
	case a.Kind() != b.Kind():
		return cmp.Compare(a.Kind(), b.Kind())
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
