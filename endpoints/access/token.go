package access

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	"berth/endpoints/rights"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// tokenUUID is the form of the secret that an operator chooses.
var tokenUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Bootstrap makes the first management token, in every mode. It makes another one if root on this server,
// which leads, has written the index of the last time into the reset file, and then removes the file.
func (p Tokens) Bootstrap(
	ctx context.Context, req *access.BootstrapRequest, resp *access.TokenPutResponse,
) (uint64, error) {
	if req.Secret != "" && !tokenUUID.MatchString(req.Secret) {
		return 0, structs.Invalidf("BootstrapSecret: expected a UUID in lower case")
	}

	last := state.ACLBootstrapped(p.Store.Read())
	if last != 0 && p.resetIndex() != last {
		return 0, structs.Conflictf("the first management token was made before. If all are lost: on server %s, "+
			"which leads, root writes %d into %s, and then this is run again", p.Name, last, p.ResetFile)
	}

	resp.SecretID = req.Secret
	if resp.SecretID == "" {
		resp.SecretID = structs.NewID()
	}
	change := &access.BootstrapChange{
		Token: &access.Token{
			AccessorID: structs.NewID(),
			SecretHash: access.HashSecret(resp.SecretID),
			Name:       "Bootstrap Token",
			Type:       access.TypeManagement,
			Global:     true,
		},
		ResetIndex: last,
		Now:        req.Now,
	}
	index, err := fsm.Propose(ctx, p.Raft, fsm.ACLBootstrap, change)
	if err != nil {
		return 0, err
	}

	// The file has done its work, and names an index that is over.
	err = os.Remove(p.ResetFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Logger.Warn("remove the file that allowed another first token", "file", p.ResetFile, "error", err)
	}
	resp.Token = state.TokenByAccessor(p.Store.Read(), change.Token.AccessorID)
	return index, nil
}

// resetIndex returns the index in the reset file, 0 without one.
func (p Tokens) resetIndex() uint64 {
	text, err := os.ReadFile(p.ResetFile)
	if err != nil {
		return 0
	}
	index, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		p.Logger.Warn("the file that allows another first token has no number", "file", p.ResetFile)
		return 0
	}
	return index
}

// Tokens lists the tokens, without their secrets.
func (p Tokens) Tokens(
	tx *state.ReadTx, req *access.TokenListRequest, resp *access.TokenListResponse,
) error {
	resp.Tokens = []*access.Token{}
	for t := range state.Tokens(tx) {
		if (req.Type == "" || req.Type == t.Type) && strings.HasPrefix(t.AccessorID, req.Prefix) {
			resp.Tokens = append(resp.Tokens, state.TokenWithRoleNames(tx, t))
		}
	}
	return nil
}

// Token reads a token: the one of the caller if the request names none.
func (p Tokens) Token(
	tx *state.ReadTx, req *access.TokenGetRequest, resp *access.TokenGetResponse,
) error {
	t := state.TokenByAccessor(tx, req.AccessorID)
	if req.AccessorID == "" {
		t = state.TokenBySecret(tx, rights.SecretOf(req))
	}
	if t == nil {
		return structs.NotFoundf("there is no token with the accessor %q",
			structs.Cut(req.AccessorID, structs.MaxQuoted))
	}
	resp.Token = state.TokenWithRoleNames(tx, t)
	return nil
}

// DeleteToken deletes a token. The servers remember this, for the restore of an archive that has it.
func (p Tokens) DeleteToken(
	ctx context.Context, req *access.TokenDeleteRequest, _ *structs.Empty,
) (uint64, error) {
	req.Keep = p.KeepDeleted
	return fsm.Propose(ctx, p.Raft, fsm.ACLTokenDelete, req)
}

// PutToken makes a token, or changes the one with the accessor.
func (p Tokens) PutToken(
	ctx context.Context, req *access.TokenPutRequest, resp *access.TokenPutResponse,
) (uint64, error) {
	if req.Token == nil {
		return 0, structs.Invalidf("there is no token")
	}

	t := *req.Token
	err := p.linkRoles(&t)
	if err == nil {
		err = p.complete(&t, req)
	}
	if err != nil {
		return 0, err
	}

	secret := ""
	if t.AccessorID == "" {
		secret = structs.NewID()
		t.AccessorID = structs.NewID()
		t.SecretHash = access.HashSecret(secret)
	}
	index, err := fsm.Propose(ctx, p.Raft, fsm.ACLTokenPut, &access.TokenChange{Token: &t, Now: req.Now})
	if err != nil {
		return 0, err
	}

	tx := p.Store.Read()
	stored := state.TokenByAccessor(tx, t.AccessorID)
	if stored == nil {
		return 0, structs.NotFoundf("the token was deleted meanwhile")
	}
	resp.Token = state.TokenWithRoleNames(tx, stored)
	resp.SecretID = secret
	return index, nil
}

// complete checks what the leader alone knows, and gives a new token its end.
func (p Tokens) complete(t *access.Token, req *access.TokenPutRequest) error {
	if t.AccessorID != "" {
		if state.TokenByAccessor(p.Store.Read(), t.AccessorID) == nil {
			return structs.NotFoundf("there is no token with the accessor %q; leave AccessorID out for a new one",
				structs.Cut(t.AccessorID, structs.MaxQuoted))
		}
		return nil
	}

	if req.TTL < 0 || req.TTL > maxTokenTTL {
		return structs.Invalidf("ExpirationTTL is %s; expected at most %s", req.TTL, maxTokenTTL)
	}
	if req.TTL != 0 {
		t.ExpireTime = req.Now + int64(req.TTL)
	}
	t.SecretHash = nil
	return nil
}

// linkRoles replaces the names of roles by their IDs.
func (p Tokens) linkRoles(t *access.Token) error {
	tx := p.Store.Read()
	links := make([]*access.Link, 0, len(t.Roles))
	for _, link := range t.Roles {
		if link == nil {
			return structs.Invalidf("Roles: expected a role, found null")
		}

		role := state.Role(tx, link.ID)
		if link.ID == "" {
			role = state.RoleByName(tx, link.Name)
		}
		if role == nil {
			return structs.Preconditionf("there is no role with the ID %q or the name %q; create it: berth acl role create",
				structs.Cut(link.ID, structs.MaxQuoted), structs.Cut(link.Name, structs.MaxQuoted))
		}
		links = append(links, &access.Link{ID: role.ID})
	}
	t.Roles = links
	return nil
}
