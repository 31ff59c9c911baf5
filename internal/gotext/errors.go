package gotext

import (
	"errors"
	"fmt"
	"text/template/parse"
)

// Error is the failure of a text.
type Error struct {
	Place string // the name of the text, the line, the column, and the text there
	Call  string // the function that has failed, "" if none did
	Cause error  // a Fault, or the error of a function
}

// Error returns the place, the function and the cause.
func (e *Error) Error() string { return e.Where() + e.Cause.Error() }

// Where returns the place and the function, ready to have a cause behind them. It has no value of the text.
func (e *Error) Where() string {
	where := "template: "
	if e.Place != "" {
		where += e.Place + ": "
	}
	if e.Call != "" {
		where += "error calling " + e.Call + ": "
	}
	return where
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Fault is a cause that this package has found. It has names and types of the text, and none of its values.
type Fault string

func (f Fault) Error() string { return string(f) }

func faultf(format string, args ...any) Fault { return Fault(fmt.Sprintf(format, args...)) }

// fail returns a fault at a node of the text.
func (f *frame) fail(at parse.Node, format string, args ...any) error {
	return f.at(at, faultf(format, args...))
}

// at returns an error with its place: the node, unless it has one.
func (f *frame) at(node parse.Node, err error) error {
	failed, ok := errors.AsType[*Error](err)
	if ok && failed.Place != "" {
		return err
	}

	if !ok {
		failed = &Error{Cause: err}
	}
	location, context := f.tree.ErrorContext(node)
	failed.Place = fmt.Sprintf("%s: executing %q at <%s>", location, f.name, context)
	return failed
}
