package cluster

import "berth/structs"

// MaxFormers is the most IDs in Authority.Formers.
const MaxFormers = 64

// Authority is a certificate authority whose key the servers have. Key: ID.
type Authority struct {
	ID         string          // the SHA-256 of the certificate, in hexadecimal
	CertPEM    string          // its certificate
	Key        *structs.Sealed // its key in PKCS #8, for the place "authority ID"
	CreateTime int64           // UnixNano
	RetireTime int64           // UnixNano, when another one has replaced it; 0 for the one that signs
	// CrossPEM is the certificate of its key by the authority that it has replaced; "" for the first.
	CrossPEM string
	// Formers are the IDs of the authorities before it, the latest first. The rows of some are deleted.
	Formers []string
	structs.Indexes
}

// AuthorityPlace is the place of the key of an authority in the keyring.
func AuthorityPlace(id string) string { return "authority " + id }

// AuthorityRequest makes an authority the one that signs. FormerID is the one that signs before, and has
// signed CrossPEM; both are "" for the first of a cluster. The former one stays trusted.
type AuthorityRequest struct {
	ID       string
	CertPEM  string
	Key      *structs.Sealed
	FormerID string
	CrossPEM string
	Now      int64
}

// AuthorityReplace replaces the authority of the cluster by one that the servers make. It signs at once.
var AuthorityReplace = structs.Write[structs.WriteRequest, AuthorityReplaceResponse]("Authority.Replace")

// AuthorityReplaceResponse names the new authority and the former one.
type AuthorityReplaceResponse struct {
	ID           string
	FormerID     string
	TrustedUntil int64 // UnixNano, of the former one
	structs.WriteMeta
}

// AuthorityList lists the authorities of the cluster.
var AuthorityList = structs.Read[structs.QueryRequest, AuthorityListResponse]("Authority.List")

// AuthorityListResponse has the authorities: the one that signs, then the retired ones, the latest first.
type AuthorityListResponse struct {
	Authorities []*AuthorityStub
	structs.QueryMeta
}

// AuthorityStub is an authority without its key.
type AuthorityStub struct {
	ID           string
	Subject      string
	CertPEM      string
	CreateTime   int64 // UnixNano
	RetireTime   int64 // UnixNano; 0 for the one that signs
	TrustedUntil int64 // UnixNano, of a retired one; of the one that signs, its end
}

// AuthorityRemove ends the trust in a retired authority, and in those before it: they have signed for it. It
// deletes the join tokens that name them.
var AuthorityRemove = structs.Write[AuthorityRemoveRequest, AuthorityRemoveResponse]("Authority.Remove")

// AuthorityRemoveResponse has the number of deleted join tokens.
type AuthorityRemoveResponse struct {
	JoinTokens int
	structs.WriteMeta
}

// AuthorityRemoveRequest names the authority.
type AuthorityRemoveRequest struct {
	ID string
	structs.WriteOptions
}
