// Package trust has the rows by which servers, machines and operators trust each other: the authorities, the
// join tokens, the certificates of machines and their revocations, and the keys with which the servers sign
// the identities of workloads. It also has the root keys and the list of all values that are encrypted with
// them, and the tokens of Consul that servers make for the tasks of proxies.
//
// It neither encrypts nor signs: the servers do both, and the rows have the results. A row with encrypted
// values that another package writes is passed to CheckSealed first, so that no row refers to a removed key.
package trust
