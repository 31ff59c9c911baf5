package idtoken

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	"berth/structs"
	"berth/structs/access"
)

// rsaBits is the size of a key of RS256.
const rsaBits = 2048

// Generate makes a key pair of an algorithm: the public key as PKIX and the private key as PKCS 8, in DER.
func Generate(algorithm string) (public, private []byte, err error) {
	var signer crypto.Signer
	switch algorithm {
	case access.KeyEdDSA:
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	case access.KeyRS256:
		signer, err = rsa.GenerateKey(rand.Reader, rsaBits)
	default:
		err = structs.Invalidf("the algorithm of a signing key is %q; expected %s or %s",
			structs.Cut(algorithm, structs.MaxQuoted), access.KeyEdDSA, access.KeyRS256)
	}
	if err != nil {
		return nil, nil, err
	}

	public, err = x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, nil, err
	}
	private, err = x509.MarshalPKCS8PrivateKey(signer)
	return public, private, err
}

// readPublic returns a public key of an algorithm.
func readPublic(algorithm string, der []byte) (crypto.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, structs.Invalidf("a public key is not readable: %w", err)
	}
	return key, fits(algorithm, key)
}

// fits returns an error unless a public key is of an algorithm.
func fits(algorithm string, key crypto.PublicKey) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
		if algorithm == access.KeyEdDSA {
			return nil
		}
	case *rsa.PublicKey:
		if algorithm == access.KeyRS256 && k.N.BitLen() >= rsaBits {
			return nil
		}
	}
	return structs.Invalidf("a public key is no key of the algorithm %q",
		structs.Cut(algorithm, structs.MaxQuoted))
}

// KeySet is the JSON web key set of public keys, as other parties read it.
func KeySet(keys []access.PublicKey) (*jose.JSONWebKeySet, error) {
	set := &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		public, err := readPublic(k.Algorithm, k.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("signing key %s: %w", k.KeyID, err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{
			Key:       public,
			KeyID:     k.KeyID,
			Algorithm: k.Algorithm,
			Use:       "sig",
		})
	}
	return set, nil
}
