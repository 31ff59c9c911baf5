// Package rpc carries remote procedure calls: net/rpc's protocol in msgpack, so that a stock net/rpc
// client can call a server, over plain TCP or over the streams of a yamux session.
//
// Its laws:
//
//   - One TCP port serves Raft and RPC; the first byte of a connection says which (see Listener).
//   - A handler's context ends when the connection that asked is gone: nobody waits for a dead caller.
//   - A call's error keeps its structs.Kind over the wire. An error of the transport itself is
//     unavailable when the request surely was not sent, timeout when the outcome is unknown.
//   - A session can be called from both ends: a node dials its server, and the server calls the node back
//     over the same connection (see Session and SessionFrom).
//   - What one connection, one remote address and all together may have under way is bounded (Limits); who
//     waits for news never takes the place of who does not. What is beyond is refused with unavailable and
//     when to come again, before anything is done.
//   - The memory of large requests is counted from their first bytes until they are served, and bounded in all.
//     One that is refused for it is read past, so that its stream goes on. Small ones are never refused for it.
//   - A write that there is no room for is refused before its payload is decoded (Endpoint.Admit), a read that is
//     too much before its procedure runs (Server.Shed).
//   - A message is written at once and in one piece; those that come while another is being written go
//     together after it, and what is refused or is a quick read is answered when nothing more has come, or it
//     would have to be waited for others. A request that is Inline is served by the goroutine that read it, any
//     other by one of its own. A list is written row by row where its endpoint says so (Appender).
//   - A caller goes through the codec of net-rpc-msgpackrpc (see stream). An answer is read whole, up to a limit,
//     before it is decoded. The serving half reads and writes the heads of messages itself: the library has no
//     context that ends with the caller's connection, no refusal of a payload that is not decoded, and no
//     answers that are written together.
//   - A payload that does not decode is answered with invalid, a handler that panics with internal.
//
// Who may call what is left to the endpoints package.
package rpc
