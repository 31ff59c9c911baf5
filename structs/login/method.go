package login

import "berth/structs"

// The types of auth methods.
const (
	TypeOIDC = "OIDC" // a person logs in at a provider with a browser
	TypeJWT  = "JWT"  // the caller has a signed token already
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
	Name            string          `level:"2"`
	Type            string          `level:"2"`
	TokenLocality   string          `level:"2"`
	TokenNameFormat string          `level:"2"` // a template: see DefaultNameFormat
	MaxTokenTTL     Duration        `level:"2"` // how long a token of a login lives
	Default         bool            `level:"2"` // the method of its type for a login that names none
	Config          *AuthConfig     `level:"2"`
	Sealed          *structs.Sealed `level:"2" json:"-" codec:"Sealed"` // AuthSecrets as JSON; nil: none
	CreateTime      Time            `level:"2"`
	ModifyTime      Time            `level:"2"`
	structs.Indexes `level:"2"`
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
	JWTValidationPubKeys []string          `level:"2"` // public keys or certificates as PEM
	JWKSURL              string            `level:"2"`
	JWKSCACert           string            `level:"2"` // PEM; "" for the authorities of the system
	OIDCDiscoveryURL     string            `level:"2"` // the issuer, without /.well-known
	DiscoveryCaPem       []string          `level:"2"` // as JWKSCACert
	OIDCClientID         string            `level:"2"`
	OIDCClientSecret     Secret            `level:"2"`
	OIDCClientAssertion  *ClientAssertion  `level:"2"` // nil: the client proves itself by its secret
	OIDCEnablePKCE       bool              `level:"2"` // of the dialect: a login has PKCE in any case
	OIDCDisableUserInfo  bool              `level:"2"`
	OIDCScopes           []string          `level:"2"` // beside openid
	AllowedRedirectURIs  []string          `level:"2"`
	BoundAudiences       []string          `level:"2"` // of which a token has one
	BoundIssuer          []string          `level:"2"` // of which a token has one; empty: any
	SigningAlgs          []string          `level:"2"` // empty: RS256
	ExpirationLeeway     Duration          `level:"2"` // 0: 150 s; less: none
	NotBeforeLeeway      Duration          `level:"2"` // 0: 150 s; less: none
	ClockSkewLeeway      Duration          `level:"2"` // 0: 60 s; less: none
	ClaimMappings        map[string]string `level:"2"` // from a claim or a JSON pointer to NAME of value.NAME
	ListClaimMappings    map[string]string `level:"2"` // likewise to list.NAME
	VerboseLogging       bool              `level:"2"` // logs the rules that matched, and no claim
}

// The sources of the key that signs a client assertion.
const (
	KeySourcePrivateKey   = "private_key"
	KeySourceClientSecret = "client_secret"
)

// ClientAssertion proves the client to its provider by a JWT that it signs.
type ClientAssertion struct {
	Audience     []string          `level:"2"` // empty: the issuer
	KeySource    string            `level:"2"`
	KeyAlgorithm string            `level:"2"` // "": RS256 for a private key, HS256 for a client secret
	PrivateKey   *AssertionKey     `level:"2"`
	ExtraHeaders map[string]string `level:"2"`
}

// AssertionKey is a private key of RSA, with the header by which the provider finds the public one.
type AssertionKey struct {
	PemKey      Secret `level:"2"`
	PemKeyFile  string `level:"2"` // of the dialect, and rejected
	KeyIDHeader string `level:"2"` // kid, x5t or x5t#S256; "": kid with a KeyID, else x5t#S256
	KeyID       string `level:"2"`
	PemCert     string `level:"2"`
	PemCertFile string `level:"2"` // of the dialect, and rejected
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
	Name                 string `level:"2"`
	structs.QueryOptions `level:"2"`
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
	Method               *AuthMethod `level:"2"`
	structs.WriteOptions `level:"2"`
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
	Name                 string `level:"2"`
	structs.WriteOptions `level:"2"`
}

// AuthMethodChange is the payload of the log entry that stores a method, with its secrets sealed.
type AuthMethodChange struct {
	Method *AuthMethod `level:"2"`
	Now    int64       `level:"2"` // UnixNano
}
