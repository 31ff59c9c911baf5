package template

import (
	"github.com/hashicorp/go-sockaddr"

	"berth/consul/lookup"
	"berth/internal/gotext"
)

// valueMethods are the methods of values that a text may call, beside the methods that all texts have.
var valueMethods = []gotext.Methods{
	gotext.MethodsOf[*scratch](gotext.Functions{
		"Get":       (*scratch).Get,
		"Key":       (*scratch).Key,
		"MapSet":    (*scratch).MapSet,
		"MapSetX":   (*scratch).MapSetX,
		"MapValues": (*scratch).MapValues,
		"Set":       (*scratch).Set,
		"SetX":      (*scratch).SetX,
	}),
	gotext.MethodsOf[lookup.VariableItems](gotext.Functions{
		"Keys":     lookup.VariableItems.Keys,
		"Metadata": lookup.VariableItems.Metadata,
		"Tuples":   lookup.VariableItems.Tuples,
		"Values":   lookup.VariableItems.Values,
	}),
	gotext.MethodsOf[lookup.VariableItem](gotext.Functions{
		"MarshalJSON": lookup.VariableItem.MarshalJSON,
		"Metadata":    lookup.VariableItem.Metadata,
	}),
	gotext.MethodsOf[lookup.NanoTime](gotext.Functions{"Time": lookup.NanoTime.Time}),
}

// addressMethods are the methods of addresses that a text of sockaddr may call.
var addressMethods = []gotext.Methods{
	gotext.MethodsOf[sockaddr.IfAddr](gotext.Functions{
		"Attr":   sockaddr.IfAddr.Attr,
		"String": sockaddr.IfAddr.String,
	}),
	gotext.MethodsOf[sockaddr.SockAddr](gotext.Functions{
		"Contains": sockaddr.SockAddr.Contains,
		"Equal":    sockaddr.SockAddr.Equal,
		"Type":     sockaddr.SockAddr.Type,
	}),
	gotext.MethodsOf[sockaddr.IPAddr](gotext.Functions{
		"FirstUsable": sockaddr.IPAddr.FirstUsable,
		"Host":        sockaddr.IPAddr.Host,
		"IPPort":      sockaddr.IPAddr.IPPort,
		"LastUsable":  sockaddr.IPAddr.LastUsable,
		"Maskbits":    sockaddr.IPAddr.Maskbits,
		"NetIP":       sockaddr.IPAddr.NetIP,
		"Network":     sockaddr.IPAddr.Network,
	}),
}
