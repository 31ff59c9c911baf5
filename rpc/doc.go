// Package rpc carries remote procedure calls: net/rpc's protocol in msgpack, so that a stock net/rpc
// client can call a server, over plain TCP or over the streams of a yamux session.
//
// Its laws:
//
//   - One TCP port serves Raft and RPC. The first byte of a connection says which (see Listener).
//   - The context of a handler ends when the connection of its caller is gone.
//   - The error of a call keeps its structs.Kind over the wire. An error of the transport is unavailable if
//     the request was surely not sent, and timeout if the outcome is unknown.
//   - A session can be called from both ends: a node dials its server, and the server calls the node back
//     over the same connection (see Session and SessionFrom).
//   - The requests in flight of one connection and of all are bounded (Limits). A request that waits for a
//     change never takes the place of one that does not. A request beyond a bound is refused with unavailable
//     and the time after which to retry, and has had no effect.
//   - The memory of large requests is bounded, from their first bytes until they are served. A request that
//     is refused for it is read past, so that its stream goes on. Small requests are never refused for it.
//   - A write that there is no room for is refused before its payload is decoded (Endpoint.Admit), a read
//     that is too much before its procedure runs (Server.Shed).
//   - A message is written at once and in one piece. Messages that come while another one is written follow
//     it together. Refusals and the answers of inline reads are written when no more requests have arrived.
//   - An Inline request is served by the goroutine that read it, any other by a goroutine of its own. A list
//     is written row by row if its endpoint says so (Appender).
//   - A caller goes through the codec of net-rpc-msgpackrpc (see stream). An answer is read whole, up to a
//     limit, before it is decoded. The serving half reads and writes the heads of messages itself: the
//     library has no context that ends with the caller's connection, no refusal of a payload that is not
//     decoded, and no answers that are written together.
//   - A payload that does not decode is answered with invalid, a handler that panics with internal.
//
// Authentication and authorization are left to the endpoints package.
package rpc
