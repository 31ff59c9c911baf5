// Package idtoken writes and reads the tokens of workload identities: JSON web tokens in their compact form.
// It takes keys as bytes and knows neither rows nor a clock.
//
// It takes two algorithms, and the header of a token does not choose: the key which the header names decides
// the algorithm. So a token without a signature is worth nothing, nor is one whose signature is made with a
// public key as the secret.
//
// LoginSettings are the settings of the identity with which a workload logs in at a service outside of the
// cluster.
package idtoken
