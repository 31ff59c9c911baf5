package authmethod

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/cap/jwt"

	"berth/structs"
	"berth/structs/access"
)

// The bounds on the configuration of a method.
const (
	maxEntries = 100       // of each list and map
	maxText    = 2048      // bytes of each text but PEM
	maxPEM     = 64 << 10  // bytes of each PEM
	maxConfig  = 256 << 10 // bytes of all texts
	maxLeeway  = access.Duration(time.Hour)
)

// Check returns an error of kind invalid unless logins by the configuration of a method can work. Its secrets
// are given apart.
func Check(m *access.AuthMethod, secrets access.AuthSecrets) error {
	c := m.Config
	err := checkSizes(c, secrets)
	if err == nil {
		err = checkSource(m)
	}
	if err == nil && m.Type == access.MethodOIDC {
		err = checkOIDC(c, secrets)
	}
	if err != nil {
		return err
	}

	for _, a := range c.SigningAlgs {
		if jwt.SupportedSigningAlgorithm(jwt.Alg(a)) != nil {
			return structs.Invalidf("SigningAlgs has %q; expected RS, ES or PS with 256, 384 or 512, or EdDSA", cut(a))
		}
	}
	for _, d := range []access.Duration{c.ExpirationLeeway, c.NotBeforeLeeway, c.ClockSkewLeeway} {
		if d > maxLeeway {
			return structs.Invalidf("a leeway is %s; expected at most %s", d, maxLeeway)
		}
	}
	// The keys and the authorities are read as a login reads them.
	_, err = staticKeys(c.JWTValidationPubKeys)
	if err == nil {
		_, err = NewTransport(nil, authorities(c), time.Now)
	}
	return err
}

func cut(text string) string { return structs.Cut(text, structs.MaxQuoted) }

// checkSizes bounds all texts.
func checkSizes(c *access.AuthConfig, secrets access.AuthSecrets) error {
	lists := map[string][]string{
		"OIDCScopes":          c.OIDCScopes,
		"AllowedRedirectURIs": c.AllowedRedirectURIs,
		"BoundAudiences":      c.BoundAudiences,
		"BoundIssuer":         c.BoundIssuer,
		"SigningAlgs":         c.SigningAlgs,
		"ClaimMappings":       pairs(c.ClaimMappings),
		"ListClaimMappings":   pairs(c.ListClaimMappings),
		"a text": {c.JWKSURL, c.OIDCDiscoveryURL, c.OIDCClientID,
			string(secrets.OIDCClientSecret)},
	}
	if a := c.OIDCClientAssertion; a != nil {
		lists["the Audience of OIDCClientAssertion"] = a.Audience
		lists["the ExtraHeaders of OIDCClientAssertion"] = pairs(a.ExtraHeaders)
	}
	size := 0
	for name, list := range lists {
		if len(list) > 2*maxEntries {
			return structs.Invalidf("%s has more than %d entries", name, maxEntries)
		}
		for _, text := range list {
			size += len(text)
			if len(text) > maxText {
				return structs.Invalidf("%s of the configuration has %d bytes; expected at most %d", name,
					len(text), maxText)
			}
		}
	}

	pems := slices.Concat(c.JWTValidationPubKeys, c.DiscoveryCaPem, []string{c.JWKSCACert,
		string(secrets.PemKey)})
	if len(pems) > maxEntries {
		return structs.Invalidf("the configuration has more than %d keys and certificates", maxEntries)
	}
	for _, text := range pems {
		size += len(text)
		if len(text) > maxPEM {
			return structs.Invalidf("a key or a certificate has %d bytes; expected at most %d", len(text),
				maxPEM)
		}
	}
	if size > maxConfig {
		return structs.Invalidf("the configuration has %d bytes; expected at most %d", size, maxConfig)
	}
	return nil
}

func pairs(m map[string]string) (all []string) {
	for k, v := range m {
		all = append(all, k, v)
	}
	return all
}

// checkSource checks that a method has one place of keys.
func checkSource(m *access.AuthMethod) error {
	c := m.Config
	given := 0
	for _, there := range []bool{len(c.JWTValidationPubKeys) > 0, c.JWKSURL != "", c.OIDCDiscoveryURL != ""} {
		if there {
			given++
		}
	}
	switch {
	case m.Type == access.MethodOIDC && (given != 1 || c.OIDCDiscoveryURL == ""):
		return structs.Invalidf("a method of type OIDC has OIDCDiscoveryURL, and neither JWKSURL nor JWTValidationPubKeys")
	case given != 1:
		return structs.Invalidf("a method of type JWT has one of JWTValidationPubKeys, JWKSURL and OIDCDiscoveryURL; %d are given", given)
	case c.JWKSURL != "":
		return checkURL("JWKSURL", c.JWKSURL)
	case c.OIDCDiscoveryURL != "":
		return checkURL("OIDCDiscoveryURL", c.OIDCDiscoveryURL)
	}
	return nil
}

// checkURL rejects an address at which anybody on the way could answer.
func checkURL(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return structs.Invalidf("%s is %q; expected a URL such as https://id.example.org, without a password", field,
			cut(text))
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && isLocal(u.Hostname())) {
		return structs.Invalidf("%s is %q; expected https: the keys come over this connection", field,
			cut(text))
	}
	return nil
}

func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func checkOIDC(c *access.AuthConfig, secrets access.AuthSecrets) error {
	switch {
	case c.OIDCClientID == "":
		return structs.Invalidf("OIDCClientID is empty; expected the ID of the client at the provider")
	case len(c.AllowedRedirectURIs) == 0:
		return structs.Invalidf("AllowedRedirectURIs is empty; expected for example " +
			"http://localhost:4649/oidc/callback")
	}
	for _, text := range c.AllowedRedirectURIs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && !isLocal(u.Hostname()) {
			return structs.Invalidf("AllowedRedirectURIs has %q; expected a URL with https, or with http at localhost",
				cut(text))
		}
	}

	if c.OIDCClientAssertion == nil {
		return nil
	}
	_, err := assertion(c, secrets)
	return err
}

// authorities returns the PEM of the authorities of the provider.
func authorities(c *access.AuthConfig) string {
	if c.JWKSURL != "" {
		return c.JWKSCACert
	}
	return strings.Join(c.DiscoveryCaPem, "\n")
}
