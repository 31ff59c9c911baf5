package authmethod

import (
	"context"
	"crypto"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/cap/jwt"
	"golang.org/x/oauth2"

	"berth/structs"
	"berth/structs/access"
)

// verifier verifies logins by one version of a method. Its keys are read once, and again for a token that
// names an unknown one.
type verifier struct {
	method    *access.AuthMethod
	secrets   access.AuthSecrets
	now       func() time.Time
	transport *Transport

	keys jwt.KeySet // of a method of type JWT
	oidc *provider  // of a method of type OIDC
}

// newVerifier reads the description of the provider, if the method has one.
func newVerifier(m *access.AuthMethod, secrets access.AuthSecrets, now func() time.Time) (*verifier, error) {
	c := m.Config
	transport, err := NewTransport(addresses(c), authorities(c), now)
	if err != nil {
		return nil, err
	}

	v := &verifier{
		method:    m,
		secrets:   secrets,
		now:       now,
		transport: transport,
	}
	if m.Type == access.MethodOIDC {
		v.oidc, err = newProvider(v)
	} else {
		v.keys, err = v.newKeys()
	}
	if err != nil {
		transport.Close()
		return nil, failed("reading the keys of the provider", err)
	}
	return v, nil
}

// addresses returns the URLs that the configuration itself names.
func addresses(c *access.AuthConfig) (all []string) {
	for _, a := range []string{c.JWKSURL, c.OIDCDiscoveryURL} {
		if a != "" {
			all = append(all, a)
		}
	}
	return all
}

func (v *verifier) newKeys() (jwt.KeySet, error) {
	c := v.method.Config
	// The set of keys calls with this context as long as it lives. Each request has its own time.
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: v.transport})
	switch {
	case c.JWKSURL != "":
		return jwt.NewJSONWebKeySet(ctx, c.JWKSURL, "")
	case c.OIDCDiscoveryURL != "":
		return jwt.NewOIDCDiscoveryKeySet(ctx, c.OIDCDiscoveryURL, "")
	}

	keys, err := staticKeys(c.JWTValidationPubKeys)
	if err != nil {
		return nil, err
	}
	return jwt.NewStaticKeySet(keys)
}

// staticKeys reads public keys. The error is invalid.
func staticKeys(pems []string) (keys []crypto.PublicKey, err error) {
	for i, text := range pems {
		key, err := jwt.ParsePublicKeyPEM([]byte(text))
		if err != nil {
			return nil, structs.Invalidf("JWTValidationPubKeys: entry %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// verifyToken returns the claims of a JWT. The error is denied if it is not valid, and unavailable if the
// keys cannot be read.
func (v *verifier) verifyToken(ctx context.Context, token access.Secret) (map[string]any, error) {
	c := v.method.Config
	set, err := jwt.NewValidator(v.keys)
	if err != nil {
		return nil, structs.Internalf("verifying a JWT: %w", err)
	}

	expected := jwt.Expected{
		Audiences:        c.BoundAudiences,
		NotBeforeLeeway:  time.Duration(c.NotBeforeLeeway),
		ExpirationLeeway: time.Duration(c.ExpirationLeeway),
		ClockSkewLeeway:  time.Duration(c.ClockSkewLeeway),
		Now:              v.now,
	}
	for _, a := range c.SigningAlgs {
		expected.SigningAlgorithms = append(expected.SigningAlgorithms, jwt.Alg(a))
	}
	claims, err := set.Validate(ctx, string(token), expected)
	if err != nil {
		return nil, failed("the JWT is not valid for auth method "+v.method.Name, err)
	}

	issuer, _ := claims["iss"].(string)
	switch {
	case len(c.BoundIssuer) > 0 && !slices.Contains(c.BoundIssuer, issuer):
		return nil, structs.Deniedf("the JWT is of issuer %q, which BoundIssuer of auth method %s does not have",
			cut(issuer), v.method.Name)
	// The description of the provider binds its issuer, as BoundIssuer does.
	case len(c.BoundIssuer) == 0 && c.OIDCDiscoveryURL != "" && issuer != c.OIDCDiscoveryURL:
		return nil, structs.Deniedf("the JWT is of issuer %q; expected %q", cut(issuer), c.OIDCDiscoveryURL)
	// A token for somebody else must not work here.
	case len(c.BoundAudiences) == 0 && claims["aud"] != nil:
		return nil, structs.Deniedf("the JWT has an audience, and auth method %s has no BoundAudiences: set those for "+
			"which it accepts tokens", v.method.Name)
	}
	return claims, nil
}

// failed gives an error of the library its kind: unavailable if the provider could not be reached, otherwise
// denied. A body of the provider is no part of it.
func failed(doing string, err error) error {
	var rejected *oauth2.RetrieveError
	if errors.As(err, &rejected) {
		status := 0
		if rejected.Response != nil {
			status = rejected.Response.StatusCode
		}
		if status >= http.StatusInternalServerError {
			return structs.Unavailablef("%s: the provider answered with status %d", doing, status)
		}
		return structs.Deniedf("%s: the provider rejected it with status %d %q", doing, status,
			cut(rejected.ErrorCode))
	}

	switch structs.KindOf(err) {
	case structs.KindUnavailable:
		return structs.Busy(structs.RetryAfter(err), "%s: %v", doing, err)
	case structs.KindInvalid:
		return err
	}
	var call *url.Error
	if errors.As(err, &call) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return structs.Unavailablef("%s: %w", doing, err)
	}
	return structs.Deniedf("%s: %w", doing, err)
}
