package authmethod

import (
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // x5t is defined with it; it names a certificate and protects nothing
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"

	"github.com/hashicorp/cap/oidc"
	"github.com/hashicorp/cap/oidc/clientassertion"

	"berth/structs"
	"berth/structs/access"
)

// assertion returns the JWT by which the client proves itself to its provider, ready to be signed. Its errors
// are invalid, and never quote a key.
func assertion(c *access.AuthConfig, secrets access.AuthSecrets) (oidc.JWTSerializer, error) {
	a := c.OIDCClientAssertion
	audience := a.Audience
	if len(audience) == 0 {
		audience = []string{c.OIDCDiscoveryURL}
	}
	headers := []clientassertion.Option{clientassertion.WithHeaders(a.ExtraHeaders)}

	switch a.KeySource {
	case access.KeySourceClientSecret:
		alg := clientassertion.HSAlgorithm(a.KeyAlgorithm)
		if alg == "" {
			alg = clientassertion.HS256
		}
		j, err := clientassertion.NewJWTWithHMAC(c.OIDCClientID, audience, alg,
			string(secrets.OIDCClientSecret), headers...)
		if err != nil {
			return nil, structs.Invalidf("OIDCClientAssertion with the client secret: %w", err)
		}
		return j, nil
	case access.KeySourcePrivateKey:
		alg := clientassertion.RSAlgorithm(a.KeyAlgorithm)
		if alg == "" {
			alg = clientassertion.RS256
		}
		key, err := privateKey(a.PrivateKey, secrets.PemKey)
		if err != nil {
			return nil, err
		}
		name, err := keyHeader(a.PrivateKey)
		if err != nil {
			return nil, err
		}
		j, err := clientassertion.NewJWTWithRSAKey(c.OIDCClientID, audience, alg, key, append(headers,
			name)...)
		if err != nil {
			return nil, structs.Invalidf("OIDCClientAssertion with the private key: %w", err)
		}
		return j, nil
	}
	return nil, structs.Invalidf("KeySource of OIDCClientAssertion is %q; expected %s or %s",
		cut(a.KeySource),
		access.KeySourcePrivateKey, access.KeySourceClientSecret)
}

// privateKey reads the key of RSA.
func privateKey(k *access.AssertionKey, text access.Secret) (*rsa.PrivateKey, error) {
	if k == nil || text == "" {
		return nil, structs.Invalidf("PrivateKey of OIDCClientAssertion has no PemKey; expected a key of RSA as PEM")
	}
	if k.PemKeyFile != "" || k.PemCertFile != "" {
		return nil, structs.Invalidf("berth reads no file of its servers for an auth method: give PemKey in place of " +
			"PemKeyFile, and PemCert in place of PemCertFile. The key is stored encrypted")
	}

	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, structs.Invalidf("PemKey of OIDCClientAssertion is no PEM")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, structs.Invalidf("PemKey of OIDCClientAssertion is no private key of RSA in PKCS #1 or #8")
	}
	return key, nil
}

// keyHeader returns the header by which the provider finds the public key.
func keyHeader(k *access.AssertionKey) (clientassertion.Option, error) {
	if k.KeyID != "" {
		if k.PemCert != "" || k.KeyIDHeader != "" && k.KeyIDHeader != clientassertion.KeyIDHeader {
			return nil, structs.Invalidf("PrivateKey of OIDCClientAssertion has a KeyID; expected no PemCert, and KeyIDHeader kid")
		}
		return clientassertion.WithKeyID(k.KeyID), nil
	}

	block, _ := pem.Decode([]byte(k.PemCert))
	if block == nil {
		return nil, structs.Invalidf("PrivateKey of OIDCClientAssertion has neither a KeyID nor a " +
			"certificate in PemCert")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, structs.Invalidf("PemCert of OIDCClientAssertion: %w", err)
	}
	switch k.KeyIDHeader {
	case "", "x5t#S256":
		sum := sha256.Sum256(cert.Raw)
		return clientassertion.WithHeaders(map[string]string{
			"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:]),
		}), nil
	case "x5t":
		sum := sha1.Sum(cert.Raw) //nolint:gosec // see the import
		return clientassertion.WithHeaders(map[string]string{
			"x5t": base64.RawURLEncoding.EncodeToString(sum[:]),
		}), nil
	}
	return nil, structs.Invalidf("KeyIDHeader is %q; expected x5t#S256 or x5t with a PemCert",
		cut(k.KeyIDHeader))
}
