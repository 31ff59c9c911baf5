package rpc

import (
	"reflect"

	"berth/structs"
)

// Method is a structs.Method with its types as values. So the program has the code that handles requests of
// any method once, and not for each method. A request and an answer are pointers to the types.
type Method struct {
	Name  string
	Write bool
	req   reflect.Type
	resp  reflect.Type
}

// MethodOf returns a method with its types as values.
func MethodOf[Req, Resp any](m structs.Method[Req, Resp]) Method {
	return Method{
		Name:  m.Name,
		Write: m.Write,
		req:   reflect.TypeFor[Req](),
		resp:  reflect.TypeFor[Resp](),
	}
}

// NewRequest returns an empty request.
func (m Method) NewRequest() any { return reflect.New(m.req).Interface() }

// NewAnswer returns an empty answer.
func (m Method) NewAnswer() any { return reflect.New(m.resp).Interface() }

// Answer is the type of the answer, not of the pointer to it.
func (m Method) Answer() reflect.Type { return m.resp }

// CopyRequest returns a shallow copy of a request.
func (m Method) CopyRequest(req any) any {
	own := reflect.New(m.req)
	own.Elem().Set(reflect.ValueOf(req).Elem())
	return own.Interface()
}
