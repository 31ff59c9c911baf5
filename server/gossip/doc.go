// Package gossip encrypts the gossip of the servers. Each server keeps a keyring in a file. The package also
// has the forms of requests and answers about members. Package server has membership itself.
//
// The library encrypts with the primary key of a keyring, and decrypts with any key of it. So a key is
// replaced in three steps, each at all servers before the next: install, use, remove.
//
// The library writes the keyring file in place and does not wait for the disk. After a loss of power within
// a change the file may be empty or cut off. The server does not start then, and its error says to copy the
// file from another server. There is no copy from before the change: nobody else may have its keys.
package gossip
