package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"

	"berth/structs"
)

// prefix begins the text of a token. Its number is the version of the format.
const prefix = "berth-join-1-"

const (
	idSize     = 8
	secretSize = 24
	// sumSize is the size of the checksum. It tells a damaged copy from a token that is not valid.
	sumSize = 4

	fixedSize      = sha256.Size + 1 + idSize + secretSize + sumSize // with the role
	maxTokenRegion = 64
)

// MaxJoinToken is the longest text of a token in bytes.
const MaxJoinToken = len(prefix) + (fixedSize+maxTokenRegion)*4/3 + 4

// JoinToken is the content of a token with which a machine joins a cluster. The token is a secret: its holder
// gets a certificate. It also names the authority of the cluster, so that the holder knows the servers.
type JoinToken struct {
	Region    string
	Role      Role              // server or node
	Authority [sha256.Size]byte // the fingerprint of the authority (see Fingerprint)
	ID        string            // in hexadecimal; no secret
	secret    [secretSize]byte
}

// roles has the byte of each role.
var roles = map[byte]Role{
	'n': RoleNode,
	's': RoleServer,
}

// NewJoinToken makes a token for a role, server or node, in the cluster with an authority.
func NewJoinToken(region string, role Role, authority *x509.Certificate) JoinToken {
	var id [idSize]byte
	_, _ = rand.Read(id[:]) // it never fails
	t := JoinToken{
		Region:    region,
		Role:      role,
		Authority: Fingerprint(authority),
		ID:        hex.EncodeToString(id[:]),
	}
	_, _ = rand.Read(t.secret[:]) // it never fails
	return t
}

// Hash returns the hash of the secret. The servers store nothing else of it: the secret has so many random
// bits that a fast hash suffices.
func (t JoinToken) Hash() []byte {
	sum := sha256.Sum256(t.secret[:])
	return sum[:]
}

// Text returns the token as its holder gets it.
func (t JoinToken) Text() string {
	id, _ := hex.DecodeString(t.ID) // New and ParseJoinToken make no other
	b := append([]byte{}, t.Authority[:]...)
	b = append(b, t.Role[0])
	b = append(b, id...)
	b = append(b, t.secret[:]...)
	b = append(b, t.Region...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}

// String never shows the secret.
func (t JoinToken) String() string { return "join token " + t.ID }

// ParseJoinToken reads the text of a token. The error is invalid and does not show the text.
func ParseJoinToken(text string) (JoinToken, error) {
	encoded, found := strings.CutPrefix(strings.TrimSpace(text), prefix)
	if !found || len(text) > MaxJoinToken {
		return JoinToken{}, structs.Invalidf("this is no join token: one begins with %s, and "+
			"`berth node join-token create` or `berth server join-token create` makes it", prefix)
	}
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(b) <= fixedSize {
		return JoinToken{}, errDamaged()
	}
	body, sum := b[:len(b)-sumSize], b[len(b)-sumSize:]
	if binary.BigEndian.Uint32(sum) != crc32.ChecksumIEEE(body) {
		return JoinToken{}, errDamaged()
	}

	var t JoinToken
	body = body[copy(t.Authority[:], body):]
	t.Role = roles[body[0]]
	body = body[1:]
	t.ID = hex.EncodeToString(body[:idSize])
	body = body[idSize:]
	body = body[copy(t.secret[:], body):]
	t.Region = string(body)
	if t.Role == "" {
		return JoinToken{}, errDamaged()
	}
	return t, nil
}

func errDamaged() error {
	return structs.Invalidf("the join token is damaged: copy the whole line")
}
