// Package rpc carries remote procedure calls in net/rpc's protocol in msgpack, over plain TCP or over the
// streams of a yamux session. A stock net/rpc client can call a server.
//
// Its rules:
//
//   - One TCP port serves Raft and RPC. The first byte of a connection selects one (see Listener).
//   - The context of a handler ends with the connection of its caller.
//   - The error of a call keeps its structs.Kind over the wire. An error of the transport is unavailable if
//     the request was surely not sent, and timeout if the outcome is unknown.
//   - A session can be called from both ends: a node dials its server, and the server calls the node back
//     over the same connection (see Session and SessionFrom).
//   - The requests in flight of one connection and of all are bounded (Limits). Requests that wait for a
//     change and requests that do not have separate bounds. A request beyond a bound is rejected with
//     unavailable and the time after which to retry, and has had no effect.
//   - The memory of large requests is bounded, from their first bytes until they are served. The server reads
//     past a rejected request, so that its stream continues. Small requests are never rejected for this
//     bound.
//   - A write beyond the bound of its endpoint is rejected before its payload is decoded (Endpoint.Admit),
//     and an excess read before its procedure runs (Server.Shed).
//   - A message is written at once and in one piece. Messages that arrive while another one is written follow
//     it together. Rejections and the answers of inline reads are written when no more requests have arrived.
//   - The goroutine that read an Inline request serves it. Any other request has a goroutine until it is
//     answered (see workers). A list is written row by row if its endpoint supports this (Appender).
//   - A caller uses the codec of net-rpc-msgpackrpc (see stream). An answer is read whole, up to a limit,
//     before it is decoded. The serving half reads and writes the headers of messages itself: the library has
//     no context that ends with the caller's connection, no rejection of an undecoded payload, and no answers
//     that are written together.
//   - The answer to a payload that does not decode is invalid, and to a request whose handler panics
//     internal.
//
// The endpoints package authenticates and authorizes.
package rpc
