package functions

import (
	"errors"

	"github.com/hashicorp/go-cty-funcs/crypto"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// The cost of a decryption, and the bytes of a private key as text, which bound its time: a key of 8192 bits
// has 6,400.
const (
	rsaCost   = 1 << 20
	maxRSAKey = 7_000
)

// rsaWork rejects a key whose decryption would take longer than the cost says.
func rsaWork(args []cty.Value) int {
	if len(textOf(args[1])) > maxRSAKey {
		return -1
	}
	return rsaCost
}

var errDecrypt = errors.New("expected a text that is encrypted with the key, in base64, " +
	"and an RSA private key in PEM without a password")

// rsaDecrypt replaces the errors of the library, which quote its arguments.
var rsaDecrypt = function.New(&function.Spec{
	Params: crypto.RsaDecryptFunc.Params(),
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v, err := crypto.RsaDecryptFunc.Call(args)
		if err != nil {
			return cty.NilVal, errDecrypt
		}
		return v, nil
	},
})

// reverse reverses a list, or a text as in the dialect.
var reverse = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		return reverseOf(args[0]).ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return reverseOf(args[0]).Call(args)
	},
})

// reverseOf chooses by the type of the value: a function has one name in a file.
func reverseOf(v cty.Value) function.Function {
	if v.Type() == cty.String {
		return stdlib.ReverseFunc
	}
	return stdlib.ReverseListFunc
}
