// Package join has the procedures by which machines get their certificates: the tokens with which they join,
// and the port that takes machines without a certificate.
package join

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/pki"
	"berth/server/authority"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate/field"
)

const (
	defaultTTL = time.Hour
	maxTTL     = 30 * 24 * time.Hour
)

// Signing makes join tokens and signs certificates on the leader.
type Signing struct {
	authority.Signer
	Store  *state.Store
	Leader Leader
	Region string
	Logger hclog.Logger
}

// Leader is the server that leads.
type Leader interface {
	fsm.Proposer
	// VerifyLeader confirms with a quorum that the server still leads.
	VerifyLeader() error
}

// CreateToken makes a join token.
func (s Signing) CreateToken(
	ctx context.Context,
	req *cluster.JoinTokenCreateRequest,
	resp *cluster.JoinTokenCreateResponse,
) (uint64, error) {
	err := checkCreate(req)
	if err != nil {
		return 0, err
	}
	signer, err := s.Active()
	if err != nil {
		return 0, err
	}

	token := pki.NewJoinToken(s.Region, pki.Role(req.Role), signer.Cert)
	expires := req.Now + int64(cmp.Or(req.TTL, defaultTTL))
	index, err := fsm.Propose(ctx, s.Leader, fsm.JoinTokenPut, &cluster.JoinTokenRequest{
		ID:         token.ID,
		Hash:       token.Hash(),
		Role:       req.Role,
		NodeName:   req.NodeName,
		NodePool:   req.NodePool,
		Uses:       cmp.Or(req.Uses, 1),
		ExpireTime: expires,
		Now:        req.Now,
		Authority:  pki.AuthorityID(signer.Cert),
	})
	resp.ID = token.ID
	resp.Token = token.Text()
	resp.ExpireTime = expires
	return index, err
}

func checkCreate(req *cluster.JoinTokenCreateRequest) error {
	f := field.New("the join token")
	f.CheckOneOf("Role", req.Role, []string{cluster.JoinNode, cluster.JoinServer})
	f.Require(req.TTL >= 0 && req.TTL <= maxTTL, "TTL is %s; expected at most %s", req.TTL, maxTTL)
	f.Require(len(req.NodeName) <= structs.MaxName && len(req.NodePool) <= structs.MaxName,
		"NodeName and NodePool have at most %d bytes", structs.MaxName)
	f.Require(req.Role == cluster.JoinNode || req.NodeName == "" && req.NodePool == "",
		"NodeName and NodePool are for the token of a node")
	f.Require(req.NodeName == "" || req.Uses <= 1, "Uses is %d for one node; expected 1", req.Uses)
	return f.Err()
}

// ListTokens lists the join tokens that can still be used, without the hashes of their secrets.
func (s Signing) ListTokens(
	tx *state.ReadTx, _ *structs.QueryRequest, resp *cluster.JoinTokenListResponse,
) error {
	now := s.Now().UnixNano()
	resp.Tokens = []*cluster.JoinToken{}
	for t := range trust.JoinTokens(tx) {
		if t.ExpireTime <= now {
			continue
		}
		shown := *t
		shown.Hash = nil // CertificateSign takes it, and the answers of RPC would have it
		resp.Tokens = append(resp.Tokens, &shown)
	}
	return nil
}

// Sign signs the first certificate of a machine with a token. The use of the token and the certificate are
// one entry of the log. The text log names the certificate, because a later one of the machine replaces its
// record.
func (s Signing) Sign(
	ctx context.Context,
	req *cluster.CertificateSignRequest,
	resp *cluster.CertificateSignResponse,
) (uint64, error) {
	if req.TokenID == "" {
		return 0, structs.Deniedf("TokenID: nothing is given; expected that of a join token")
	}
	if len(req.NodeName) > structs.MaxName || len(req.NodePool) > structs.MaxName {
		return 0, structs.Invalidf("NodeName and NodePool have at most %d bytes", structs.MaxName)
	}
	csr, err := s.parse(req.CSR)
	if err != nil {
		return 0, err
	}
	record := &cluster.MachineCertificateRequest{
		TokenID:   req.TokenID,
		TokenHash: req.TokenHash,
		NodeName:  req.NodeName,
		NodePool:  cmp.Or(req.NodePool, structs.DefaultNodePool),
		Now:       req.Now,
	}
	index, err := s.issue(ctx, csr, record, resp)
	if err == nil {
		s.Logger.Info("signed the first certificate of a machine", "identity", csr.Identity.String(),
			"serial", record.Serial, "end", time.Unix(0, record.NotAfter).UTC(), "token", record.TokenID)
	}
	return index, err
}

// Renew signs the next certificate of a node, whose key stays the same. The caller was checked to be that
// node.
func (s Signing) Renew(
	ctx context.Context,
	req *cluster.CertificateRenewRequest,
	resp *cluster.CertificateSignResponse,
) (uint64, error) {
	csr, err := s.parse(req.CSR)
	if err != nil {
		return 0, err
	}
	if csr.Identity.Role != pki.RoleNode || csr.Identity.ID != req.NodeID {
		return 0, structs.Deniedf("the signing request is of %s; expected that of node %q",
			csr.Identity, req.NodeID)
	}
	return s.issue(ctx, csr, &cluster.MachineCertificateRequest{Now: req.Now}, resp)
}

// parse reads the request for the certificate of a machine of this region.
func (s Signing) parse(der []byte) (pki.CSR, error) {
	csr, err := pki.ParseCSR(der)
	if err != nil {
		return csr, err
	}
	id := csr.Identity
	if id.Region != s.Region {
		return csr, structs.Deniedf("%s is of another region; this is region %q", id, s.Region)
	}
	if id.Role != pki.RoleNode && id.Role != pki.RoleServer {
		return csr, structs.Deniedf("%s: only nodes and servers join", id)
	}
	return csr, nil
}

// issue signs a certificate, and returns it once the log has the record of it. It checks the token or the
// record of the machine first: a request that is denied costs no signature and no entry of the log.
func (s Signing) issue(
	ctx context.Context,
	csr pki.CSR,
	record *cluster.MachineCertificateRequest,
	resp *cluster.CertificateSignResponse,
) (uint64, error) {
	record.Role = string(csr.Identity.Role)
	record.ID = csr.Identity.ID
	record.KeyHash = pki.KeyHash(csr.Public)
	tx := s.Store.Read()
	err := trust.CheckCertificate(tx, record)
	if err != nil {
		return 0, err
	}
	var end time.Time // of the present certificate
	if known := trust.MachineCertificate(tx, record.Role, record.ID); known != nil {
		end = time.Unix(0, known.NotAfter)
	}
	signed, err := s.Signer.Renew(csr.Public, csr.Identity, end)
	if err != nil {
		return 0, err
	}
	record.Serial = signed.Serial
	record.NotAfter = signed.End.UnixNano()
	index, err := fsm.Propose(ctx, s.Leader, fsm.MachineCertificateSet, record)
	if err != nil {
		return index, err
	}
	resp.Certificate = string(signed.PEM)
	resp.Authorities = s.Trusted()
	return index, nil
}

// CheckUnrecorded returns an error if a node has another name or pool than its row, while the servers are
// the authority and have no record of its certificate: after the restore of an older archive they do not
// know which token it had. old is the row, nil for a new node, whose first registration decides. Certificates
// of an operator's own authority have no record either, and say nothing about names and pools. The node of an
// agent that is a server, too, has none, and is no exception: another server may have forwarded its request,
// and the certificate of that one does not say for which agent.
func CheckUnrecorded(tx state.Reader, old, n *structs.Node) error {
	signs := trust.ActiveAuthority(tx) != nil
	recorded := trust.MachineCertificate(tx, cluster.JoinNode, n.ID) != nil
	if old == nil || !signs || recorded || old.Name == n.Name && old.NodePool == n.NodePool {
		return nil
	}
	return structs.Deniedf("node %s is registered with the name %q in the node pool %q, and it is %q in %q; "+
		"the servers have no record of its certificate that allows this: join it again, "+
		"with a token of `berth node join-token create -node-name %s`, and for another name delete it first, "+
		"with `berth node purge`. The node of an agent that is a server, too, has no such record: drain it, "+
		"stop the agent, delete the node with `berth node purge` and start the agent",
		n.ID, old.Name, old.NodePool, n.Name, n.NodePool, old.Name)
}

// CheckNode returns an error if a node is revoked, or if it has joined with another name than its token
// allows, or in another pool.
func CheckNode(tx state.Reader, n *structs.Node) error {
	err := CheckRevoked(tx, n.ID)
	if err != nil {
		return err
	}
	c := trust.MachineCertificate(tx, cluster.JoinNode, n.ID)
	if c == nil {
		return nil
	}
	if c.NodeName != "" && c.NodeName != n.Name {
		return structs.Deniedf("node %s has joined with a token for the name %q, and it is named %q",
			n.ID, c.NodeName, n.Name)
	}
	if c.NodePool != "" && c.NodePool != n.NodePool {
		return structs.Deniedf("node %s has joined in the node pool %q, and it is in %q: set node_pool, or "+
			"join it again with a token of `berth node join-token create -node-pool %s`",
			n.ID, c.NodePool, n.NodePool, n.NodePool)
	}
	return nil
}
