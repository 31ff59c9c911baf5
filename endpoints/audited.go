package endpoints

import (
	"berth/endpoints/audit"
	"berth/structs"
)

// call describes a request for the audit log.
func (d delivered) call(node *structs.Node, req any) audit.Call {
	return audit.Call{
		Method: d.method.Name,
		Write:  d.method.Write,
		Right:  d.allow,
		Node:   node,
		Req:    req,
	}
}
