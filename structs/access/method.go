package access

import "berth/structs"

// The types of auth methods.
const (
	MethodOIDC = "OIDC" // a person logs in at a provider with a browser
	MethodJWT  = "JWT"  // the caller has a signed token already
)

// The localities of tokens in the dialect. There is one region, so both mean the same.
const (
	LocalityLocal  = "local"
	LocalityGlobal = "global"
)

// DefaultNameFormat is the format of the names of tokens, unless a method has its own. A format may also have
// ${value.NAME}.
const DefaultNameFormat = "${auth_method_type}-${auth_method_name}"

// AuthMethod is the row of a way to log in. Key: Name. Its secrets are in Sealed alone: Config has Redacted
// in their place.
type AuthMethod struct {
	Name            string
	Type            string
	TokenLocality   string
	TokenNameFormat string   // a template: see DefaultNameFormat
	MaxTokenTTL     Duration // how long a token of a login lives
	Default         bool     // the method of its type for a login that names none
	Config          *AuthConfig
	Sealed          *structs.Sealed `json:"-" codec:"Sealed"` // AuthSecrets as JSON; nil: none
	CreateTime      Time
	ModifyTime      Time
	structs.Indexes
}

// AuthPlace returns the place for which the secrets of a method are encrypted.
func AuthPlace(method string) string { return "auth method " + method }

// AuthSecrets are the secrets of a method.
type AuthSecrets struct {
	OIDCClientSecret Secret `json:",omitempty"`
	PemKey           Secret `json:",omitempty"`
}

// AuthConfig says how a method verifies who logs in. Of JWTValidationPubKeys, JWKSURL and OIDCDiscoveryURL a
// method of type JWT has one, and a method of type OIDC the last.
type AuthConfig struct {
	JWTValidationPubKeys []string // public keys or certificates as PEM
	JWKSURL              string
	JWKSCACert           string   // PEM; "" for the authorities of the system
	OIDCDiscoveryURL     string   // the issuer, without /.well-known
	DiscoveryCaPem       []string // as JWKSCACert
	OIDCClientID         string
	OIDCClientSecret     Secret
	OIDCClientAssertion  *ClientAssertion // nil: the client proves itself by its secret
	OIDCEnablePKCE       bool             // of the dialect: a login has PKCE in any case
	OIDCDisableUserInfo  bool
	OIDCScopes           []string // beside openid
	AllowedRedirectURIs  []string
	BoundAudiences       []string          // of which a token has one
	BoundIssuer          []string          // of which a token has one; empty: any
	SigningAlgs          []string          // empty: RS256
	ExpirationLeeway     Duration          // 0: 150 s; less: none
	NotBeforeLeeway      Duration          // 0: 150 s; less: none
	ClockSkewLeeway      Duration          // 0: 60 s; less: none
	ClaimMappings        map[string]string // from a claim or a JSON pointer to NAME of value.NAME
	ListClaimMappings    map[string]string // likewise to list.NAME
	VerboseLogging       bool              // logs the rules that matched, and no claim
}

// The sources of the key that signs a client assertion.
const (
	KeySourcePrivateKey   = "private_key"
	KeySourceClientSecret = "client_secret"
)

// ClientAssertion proves the client to its provider by a JWT that it signs.
type ClientAssertion struct {
	Audience     []string // empty: the issuer
	KeySource    string
	KeyAlgorithm string // "": RS256 for a private key, HS256 for a client secret
	PrivateKey   *AssertionKey
	ExtraHeaders map[string]string
}

// AssertionKey is a private key of RSA, with the header by which the provider finds the public one.
type AssertionKey struct {
	PemKey      Secret
	PemKeyFile  string // of the dialect, and rejected
	KeyIDHeader string // kid, x5t or x5t#S256; "": kid with a KeyID, else x5t#S256
	KeyID       string
	PemCert     string
	PemCertFile string // of the dialect, and rejected
}

// Copy returns a copy in which the secrets and Config can be set without a change of the row.
func (m *AuthMethod) Copy() *AuthMethod {
	c := *m
	if m.Config == nil {
		return &c
	}

	c.Config = new(*m.Config)
	if a := m.Config.OIDCClientAssertion; a != nil {
		c.Config.OIDCClientAssertion = new(*a)
		if a.PrivateKey != nil {
			c.Config.OIDCClientAssertion.PrivateKey = new(*a.PrivateKey)
		}
	}
	return &c
}

// Shown returns the method as answers have it: without the sealed secrets.
func (m *AuthMethod) Shown() *AuthMethod {
	c := *m
	c.Sealed = nil
	return &c
}

// AuthMethodStub is a method in lists. Everybody may read it, to log in.
type AuthMethodStub struct {
	Name    string
	Type    string
	Default bool
	structs.Indexes
}

// Stub returns the method as lists have it.
func (m *AuthMethod) Stub() *AuthMethodStub {
	return &AuthMethodStub{
		Name:    m.Name,
		Type:    m.Type,
		Default: m.Default,
		Indexes: m.Indexes,
	}
}

// AuthMethodList lists the methods. Everybody may.
var AuthMethodList = structs.Read[structs.QueryRequest, AuthMethodListResponse]("ACL.ListAuthMethods")

// AuthMethodListResponse has the methods by name.
type AuthMethodListResponse struct {
	Methods []*AuthMethodStub
	structs.QueryMeta
}

// AuthMethodGet reads a method, without its secrets. The error is not-found.
var AuthMethodGet = structs.Read[AuthMethodGetRequest, AuthMethodGetResponse]("ACL.GetAuthMethod")

// AuthMethodGetRequest names the method.
type AuthMethodGetRequest struct {
	Name string
	structs.QueryOptions
}

// AuthMethodGetResponse has the method.
type AuthMethodGetResponse struct {
	Method *AuthMethod
	structs.QueryMeta
}

// AuthMethodPut creates a method, or changes the one with the name. A field that a change leaves out keeps
// its value.
var AuthMethodPut = structs.Write[AuthMethodPutRequest, AuthMethodPutResponse]("ACL.UpsertAuthMethod")

// AuthMethodPutRequest has the method as it is to be, with its secrets in Config.
type AuthMethodPutRequest struct {
	Method *AuthMethod
	structs.WriteOptions
}

// AuthMethodPutResponse has the method as it is stored.
type AuthMethodPutResponse struct {
	Method *AuthMethod
	structs.WriteMeta
}

// AuthMethodDelete deletes a method with its binding rules. Tokens of its logins stay until their ends. The
// error is not-found.
var AuthMethodDelete = structs.Write[AuthMethodDeleteRequest, structs.Empty]("ACL.DeleteAuthMethod")

// AuthMethodDeleteRequest names the method.
type AuthMethodDeleteRequest struct {
	Name string
	structs.WriteOptions
}

// AuthMethodChange is the payload of the log entry that stores a method, with its secrets sealed.
type AuthMethodChange struct {
	Method *AuthMethod
	Now    int64 // UnixNano
}
