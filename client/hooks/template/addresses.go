package template

import (
	"maps"
	"reflect"
	"strings"
	"text/template/parse"

	"github.com/hashicorp/go-sockaddr"
	addresses "github.com/hashicorp/go-sockaddr/template"

	"berth/internal/gotext"
	"berth/structs"
)

// maxAddressText bounds a text of the function sockaddr, and each text that such a text gives to a function:
// a pattern takes time, and a separator memory, in proportion to its length for each address of the node.
const maxAddressText = 1000

// logicFunctions are the functions of text/template that a text of sockaddr may call beside its own.
var logicFunctions = gotext.Functions{}

func init() {
	for _, name := range []string{
		"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "len",
	} {
		logicFunctions[name] = true // the parser only looks for the name
	}
}

// sockaddr executes a text of go-sockaddr, without its delimiters, over the addresses of the node's
// interfaces. Its steps and values count as part of the rendering: such a text can loop and call itself, too.
func (r *rendering) sockaddr(words ...string) (string, error) {
	text := "{{ " + strings.Join(words, " ") + " }}"
	if len(text) > maxAddressText {
		return "", structs.Invalidf("sockaddr: the text has more than %d bytes", maxAddressText)
	}

	functions := r.addressFunctions()
	trees, err := parse.Parse("sockaddr", text, "", "", functions, logicFunctions)
	if err != nil {
		return "", err
	}

	set := gotext.New(gotext.Config{
		Functions:   functions,
		Methods:     addressMethods,
		FailMissing: true,
		Bounds:      r,
	}, trees)
	all, err := sockaddr.GetAllInterfaces()
	if err != nil {
		return "", err
	}

	out := &output{}
	err = set.Execute(out, "sockaddr", all)
	return out.String(), err
}

// addressFunctions returns the functions of go-sockaddr, with the printing ones.
func (r *rendering) addressFunctions() gotext.Functions {
	all := gotext.Functions{}
	for _, some := range []gotext.Functions{
		addresses.SourceFuncs, addresses.SortFuncs, addresses.FilterFuncs, addresses.HelperFuncs,
	} {
		maps.Copy(all, some)
	}
	for name, f := range all {
		all[name] = r.bound(addressFunction(name, f))
	}
	for name, f := range r.printFunctions() {
		all[name] = r.bound(f)
	}
	return all
}

// addressFunction returns a function that rejects long texts. An error of a function without arguments has no
// value of the text, so it is shown.
func addressFunction(name string, f any) any {
	v := reflect.ValueOf(f)
	result := func(value reflect.Value, err error) []reflect.Value {
		return []reflect.Value{value, reflect.ValueOf(&err).Elem()}
	}
	return reflect.MakeFunc(v.Type(), func(args []reflect.Value) []reflect.Value {
		for _, arg := range args {
			if arg.Kind() == reflect.String && arg.Len() > maxAddressText {
				return result(reflect.Zero(v.Type().Out(0)),
					beyond("the function %s of sockaddr gets more than %d bytes", name, maxAddressText))
			}
		}

		out := v.Call(args)
		err, _ := out[1].Interface().(error)
		if err != nil && len(args) == 0 {
			err = structs.Preconditionf("%s: %w", name, err)
		}

		return result(out[0], err)
	}).Interface()
}
