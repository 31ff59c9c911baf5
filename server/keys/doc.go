// Package keys opens the root keys of the cluster on one server, and makes new ones while it leads.
//
// A root key is a row in wrapped form. The key-encryption key that unwraps it is in a file outside of the
// data directory, or in a key management system that a program of the operator calls. Each server holds it,
// and tells its fingerprint in the gossip. Follow keeps a keyring.Ring as the rows have it, on every server.
// Lead makes the first root key, and encrypts the secrets of keys that are rekeying with the active key.
//
// A server that cannot open a root key says so, and goes on: only the secrets that the key encrypts are
// closed to it.
//
// Follow alone changes the ring, in one goroutine of the server's life. Lead runs beside it while this server
// leads. The mutex guards what they have found, and is not held while a program or a key management system
// answers, which may take seconds.
package keys
