// Package gossip encrypts the gossip of the servers. Each server keeps a keyring in a file. The package also
// has the forms of requests and answers about members. Package server has membership itself.
//
// The library encrypts with the primary key of a keyring, and decrypts with any key of it. So a key is
// replaced in three steps, each at all servers before the next: install, use, remove.
package gossip
