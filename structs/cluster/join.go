package cluster

import (
	"berth/structs"
	"time"
)

// The roles with which a machine joins the cluster.
const (
	JoinNode   = "node"
	JoinServer = "server"
)

// JoinToken lets machines join the cluster. Key: ID.
type JoinToken struct {
	ID         string
	Hash       []byte `json:"-" codec:"Hash"` // the SHA-256 of the secret
	Role       string // server or node
	NodeName   string // the only name of a node that may use it; "" for any
	NodePool   string // the only node pool that may use it; "" for any
	Uses       int    // how often it can still be used
	ExpireTime int64  // UnixNano
	CreateTime int64  // UnixNano
	Authority  string // the ID of the authority that it names
	structs.Indexes
}

// JoinTokenCreate makes a join token. Its answer alone has the secret.
var JoinTokenCreate = structs.Write[JoinTokenCreateRequest, JoinTokenCreateResponse]("JoinToken.Create")

// JoinTokenCreateRequest has the limits of the token (see JoinToken).
type JoinTokenCreateRequest struct {
	Role     string
	NodeName string
	NodePool string
	Uses     int           // 0 is 1
	TTL      time.Duration // 0 is an hour
	structs.WriteOptions
}

// JoinTokenCreateResponse has the token, which is a secret.
type JoinTokenCreateResponse struct {
	ID         string
	Token      string
	ExpireTime int64 // UnixNano
	structs.WriteMeta
}

// JoinTokenRequest stores a token. Its answer has been made before.
type JoinTokenRequest struct {
	ID         string
	Hash       []byte
	Role       string
	NodeName   string
	NodePool   string
	Uses       int
	ExpireTime int64
	Now        int64
	Authority  string
}

// JoinTokenList lists the tokens that can still be used.
var JoinTokenList = structs.Read[structs.QueryRequest, JoinTokenListResponse]("JoinToken.List")

// JoinTokenListResponse has the tokens by ID, without their secrets and the hashes of these.
type JoinTokenListResponse struct {
	Tokens []*JoinToken
	structs.QueryMeta
}

// JoinTokenDelete makes a token useless. Machines that have joined with it stay.
var JoinTokenDelete = structs.Write[JoinTokenDeleteRequest, structs.Empty]("JoinToken.Delete")

// JoinTokenDeleteRequest names the token.
type JoinTokenDeleteRequest struct {
	ID string
	structs.WriteOptions
}

// MachineCertificate is the last certificate that the servers have signed for a node, or that a server has
// got when it joined. Key: Role, ID.
type MachineCertificate struct {
	Role     string
	ID       string // a node ID, or the name of a server
	Serial   string // in hexadecimal
	KeyHash  []byte // the SHA-256 of the public key
	NotAfter int64  // UnixNano
	NodeName string // the only name with which the node may register; "" for any
	NodePool string // the only node pool of the node: of its token, or the first one; "": it is not known yet
	structs.Indexes
}

// MachineCertificateRequest records a certificate. With TokenID it uses a token, once more. Without it renews
// the certificate of the same key.
type MachineCertificateRequest struct {
	TokenID   string
	TokenHash []byte
	Role      string
	ID        string
	NodeName  string
	NodePool  string
	Serial    string
	KeyHash   []byte
	NotAfter  int64
	Now       int64
}

// Join gives a machine without a certificate its first one, for a token. A server serves it to machines that
// have none, and over TLS alone.
var Join = structs.Write[JoinRequest, JoinResponse]("Machine.Join")

// JoinRequest has the token and the request for the certificate, which has the identity.
type JoinRequest struct {
	Token    structs.Secret
	CSR      []byte // in DER
	NodeName string // of a node
	NodePool string // of a node
	structs.WriteOptions
}

// JoinResponse has the certificate. A server also gets the secrets that all servers share.
type JoinResponse struct {
	Certificate string         // in PEM
	Authorities string         // the authorities to trust, in PEM
	Servers     []string       // the RPC addresses of the servers that are alive
	Gossip      []string       // their gossip addresses; none for a node
	GossipKey   structs.Secret // for server.encrypt: with which the servers encrypt now; "" for a node
	Keyring     structs.Secret // the content of the file that opens the keyring; "" for a node
	structs.WriteMeta
}

// RenewLapsed signs the next certificate of a node whose present one has ended. A server serves it beside
// Join: the node has no certificate that it could show.
var RenewLapsed = structs.Write[RenewLapsedRequest, CertificateSignResponse]("Machine.Renew")

// RenewLapsedRequest has a signing request of the key and the identity of the certificate that has ended.
type RenewLapsedRequest struct {
	CSR []byte // in DER
	structs.WriteOptions
}

// CertificateSign signs a certificate on the leader. Only servers may call it, with the hash of a secret.
var CertificateSign = structs.Write[CertificateSignRequest, CertificateSignResponse]("Certificate.Sign")

// CertificateSignRequest has the hash of the secret of a token, and the rest of JoinRequest.
type CertificateSignRequest struct {
	TokenID   string
	TokenHash []byte
	CSR       []byte
	NodeName  string
	NodePool  string
	structs.WriteOptions
}

// CertificateSignResponse has the certificate and the authorities to trust, in PEM.
type CertificateSignResponse struct {
	Certificate string
	Authorities string
	structs.WriteMeta
}

// CertificateRenew signs the next certificate of a node.
var CertificateRenew = structs.Write[CertificateRenewRequest, CertificateSignResponse]("Certificate.Renew")

// CertificateRenewRequest has a signing request of the key that the certificate of the node has.
type CertificateRenewRequest struct {
	NodeID string
	CSR    []byte // in DER
	structs.WriteOptions
}

// Credentials returns the node that renews. Its certificate or its signature shows that it is that node.
func (r *CertificateRenewRequest) Credentials() (nodeID, secretID string) { return r.NodeID, "" }
