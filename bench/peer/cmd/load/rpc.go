package main

import (
	"net"
	"net/rpc"

	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc"
	"github.com/hashicorp/nomad/nomad/structs"
)

func codecOf(c net.Conn) rpc.ClientCodec {
	return msgpackrpc.NewCodecFromHandle(true, true, c, structs.MsgpackHandle)
}
