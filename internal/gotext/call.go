package gotext

import (
	"fmt"
	"reflect"
	"text/template/parse"
)

// callee is a function that a text calls.
type callee struct {
	name     string
	function reflect.Value
	receiver reflect.Value // the first argument of a method; not valid for a function
}

// method returns the method with a name of a value, and the receiver for it. inner is the value behind
// pointers and interfaces.
func (f *frame) method(value, inner reflect.Value, name string) (method, receiver reflect.Value) {
	candidates := []reflect.Value{inner}
	value = behindInterface(value)
	if value.Kind() == reflect.Pointer {
		candidates = append(candidates, value)
	}
	if inner.CanAddr() {
		candidates = append(candidates, inner.Addr())
	}

	for _, m := range f.Methods {
		function, ok := m.functions[name]
		if !ok {
			continue
		}
		for _, c := range candidates {
			if c.Type().AssignableTo(m.of) && (c.Kind() != reflect.Pointer || !c.IsNil()) {
				return reflect.ValueOf(function), c
			}
		}
	}
	return reflect.Value{}, reflect.Value{}
}

// function calls the function that a text names.
func (f *frame) function(dot reflect.Value, n *parse.IdentifierNode, args arguments) (reflect.Value, error) {
	function, ok := f.functions[n.Ident]
	switch {
	case ok:
		return f.call(dot, n, callee{name: n.Ident, function: function}, args)
	case n.Ident == "and", n.Ident == "or":
		return f.logic(dot, n, args)
	case n.Ident == "call":
		return f.callValue(dot, n, args)
	}
	return reflect.Value{}, f.fail(n, "%q is not a defined function", n.Ident)
}

// logic returns the first argument that decides an "and" or an "or", or the last one. The arguments behind it
// are not evaluated.
func (f *frame) logic(dot reflect.Value, n *parse.IdentifierNode, args arguments) (reflect.Value, error) {
	if args.count() == 0 {
		return reflect.Value{}, f.fail(n, "wrong number of args for %s: want at least 1 got 0", n.Ident)
	}

	var value reflect.Value
	for _, arg := range args.nodes {
		var err error
		value, err = f.value(dot, arg)
		if err != nil {
			return reflect.Value{}, err
		}
		holds, _ := isTrue(value)
		if holds == (n.Ident == "or") {
			return value, nil
		}
	}

	if args.piped {
		value = args.last
	}
	return value, nil
}

// callValue calls a function that is a value of the text.
func (f *frame) callValue(dot reflect.Value, n *parse.IdentifierNode, args arguments) (reflect.Value, error) {
	if len(args.nodes) == 0 {
		return reflect.Value{}, f.fail(n, "call needs the function as its first argument")
	}

	function, err := f.value(dot, args.nodes[0])
	if err != nil {
		return reflect.Value{}, err
	}
	function = behindInterface(function)
	switch {
	case !function.IsValid():
		return reflect.Value{}, f.fail(n, "call of nil")
	case function.Kind() != reflect.Func || function.IsNil() || !isCallable(function.Type()):
		return reflect.Value{}, f.fail(n, "call of a value of type %s", function.Type())
	}

	args.nodes = args.nodes[1:]
	return f.call(dot, n, callee{name: "call", function: function}, args)
}

// isCallable reports whether a function returns a value, or a value and an error.
func isCallable(t reflect.Type) bool {
	return t.NumOut() == 1 || t.NumOut() == 2 && t.Out(1) == reflect.TypeFor[error]()
}

// call calls a function with its arguments.
func (f *frame) call(dot reflect.Value, at parse.Node, c callee, args arguments) (reflect.Value, error) {
	in := make([]reflect.Value, 0, args.count()+1)
	if c.receiver.IsValid() {
		in = append(in, c.receiver)
	}

	t := c.function.Type()
	err := f.checkCount(at, c, args)
	if err != nil {
		return reflect.Value{}, err
	}

	for _, node := range args.nodes {
		arg, err := f.argument(dot, node, parameter(t, len(in)))
		if err != nil {
			return reflect.Value{}, err
		}
		in = append(in, arg)
	}
	if args.piped {
		last, err := f.assign(at, args.last, parameter(t, len(in)))
		if err != nil {
			return reflect.Value{}, err
		}
		in = append(in, last)
	}

	out, err := safely(c.function, in)
	if err != nil {
		return reflect.Value{}, f.at(at, &Error{Call: c.name, Cause: err})
	}
	if v, ok := reflect.TypeAssert[reflect.Value](out); ok {
		return v, nil // of a builtin
	}
	return out, nil
}

// checkCount checks the number of arguments.
func (f *frame) checkCount(at parse.Node, c callee, args arguments) error {
	t := c.function.Type()
	least := t.NumIn()
	got := args.count()
	if c.receiver.IsValid() {
		least--
	}

	if t.IsVariadic() {
		least--
		if got < least {
			return f.fail(at, "wrong number of args for %s: want at least %d got %d", c.name, least, got)
		}
		return nil
	}
	if got != least {
		return f.fail(at, "wrong number of args for %s: want %d got %d", c.name, least, got)
	}
	return nil
}

// parameter returns the type of the parameter of a function at an index.
func parameter(function reflect.Type, i int) reflect.Type {
	last := function.NumIn() - 1
	if function.IsVariadic() && i >= last {
		return function.In(last).Elem()
	}
	return function.In(i)
}

// safely calls a function. A panic is an error: functions of libraries panic for a wrong argument.
func safely(function reflect.Value, in []reflect.Value) (out reflect.Value, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			err = fmt.Errorf("%v", p)
		}
	}()

	results := function.Call(in)
	if len(results) == 2 && !results[1].IsNil() {
		return reflect.Value{}, results[1].Interface().(error)
	}
	return results[0], nil
}

// argument evaluates an argument to a value of the type of its parameter.
func (f *frame) argument(dot reflect.Value, node parse.Node, t reflect.Type) (reflect.Value, error) {
	number, ok := node.(*parse.NumberNode)
	if ok && t.Kind() != reflect.Interface && t != reflect.TypeFor[reflect.Value]() {
		return f.typedNumber(number, t)
	}

	value, err := f.value(dot, node)
	if err != nil {
		return reflect.Value{}, err
	}
	return f.assign(node, value, t)
}

// typedNumber returns a number as a value of a type, if the number is one of the type.
func (f *frame) typedNumber(n *parse.NumberNode, t reflect.Type) (reflect.Value, error) {
	value := reflect.New(t).Elem()
	fits := false
	switch {
	case value.CanInt() && n.IsInt:
		fits = !value.OverflowInt(n.Int64)
		value.SetInt(n.Int64)
	case value.CanUint() && n.IsUint:
		fits = !value.OverflowUint(n.Uint64)
		value.SetUint(n.Uint64)
	case value.CanFloat() && n.IsFloat:
		fits = true
		value.SetFloat(n.Float64)
	case value.CanComplex() && n.IsComplex:
		fits = true
		value.SetComplex(n.Complex128)
	}
	if !fits {
		return reflect.Value{}, f.fail(n, "wrong type for value; expected %s; got %s", t, n)
	}
	return value, nil
}

// assign returns a value as one of the type of a parameter: itself, what an interface or a pointer has, or a
// pointer to it.
func (f *frame) assign(at parse.Node, value reflect.Value, t reflect.Type) (reflect.Value, error) {
	if t == reflect.TypeFor[reflect.Value]() {
		return reflect.ValueOf(value), nil // of a builtin
	}
	if !value.IsValid() {
		if canBeNil(t) {
			return reflect.Zero(t), nil
		}
		return reflect.Value{}, f.fail(at, "invalid value; expected %s", t)
	}

	if value.Kind() == reflect.Interface && !value.IsNil() && !value.Type().AssignableTo(t) {
		value = value.Elem()
	}
	switch {
	case value.Type().AssignableTo(t):
		return value, nil
	case value.Kind() == reflect.Pointer && value.Type().Elem().AssignableTo(t):
		if value.IsNil() {
			return reflect.Value{}, f.fail(at, "dereference of nil pointer of type %s", t)
		}
		return value.Elem(), nil
	case reflect.PointerTo(value.Type()).AssignableTo(t) && value.CanAddr():
		return value.Addr(), nil
	}
	return reflect.Value{}, f.fail(at, "wrong type for value; expected %s; got %s", t, value.Type())
}

func canBeNil(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice:
		return true
	}
	return false
}
