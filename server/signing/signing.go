// Package signing signs the certificate of a server on the server itself.
//
// Where TLS is required, no server is elected while the certificates of all have ended, and the rows of the
// authority may be in entries of the log that wait for a leader. So each server keeps a copy of these rows in
// a file of its data directory. The file has nothing in plain: the key of the authority is encrypted with a
// root key, and the root key with the key-encryption key, which is not in that directory.
//
// Run has the life of its server. Sign and Trusted may be called at any time: they read the rows, and the
// file, at each call.
package signing

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/codec"
	"berth/internal/files"
	"berth/internal/keyring"
	"berth/internal/pki"
	"berth/server/authority"
	"berth/server/keys"
	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// fileName is the name of the copy in the data directory.
const fileName = "authority"

// retryInterval is the time between two attempts to write the copy.
const retryInterval = 5 * time.Second

// Deps are what the package needs of its server.
type Deps struct {
	Dir     string // the data directory
	Store   *state.Store
	Keys    *keyring.Ring  // the root keys of the rows
	Keyring *keys.Settings // open the root keys of the copy
	Logger  hclog.Logger
}

// Signer signs the certificate of its server.
type Signer struct {
	Deps
	file string
}

// New returns a signer. Run keeps its copy.
func New(d Deps) *Signer {
	return &Signer{
		Deps: d,
		file: filepath.Join(d.Dir, fileName),
	}
}

// kept is the content of the file: the authorities, and the root keys that encrypt their keys.
type kept struct {
	Index       uint64 // of the last entry that the store had applied
	Authorities []*cluster.Authority
	RootKeys    []*cluster.RootKey
}

// Run writes the copy whenever the rows change, until ctx ends.
func (s *Signer) Run(ctx context.Context) {
	feed := s.Store.Subscribe(1, schema.AuthorityRows, schema.RootKeyRows)
	defer feed.Close()
	told := ""
	for ctx.Err() == nil {
		feed.TakeChanges()
		err := s.keep()
		fault := ""
		var retry <-chan time.Time
		if err != nil {
			fault = err.Error()
			retry = time.After(retryInterval)
		}

		if fault != "" && fault != told {
			disk := ""
			if files.IsNoSpace(err) {
				disk = files.DescribeDisk(ctx, s.Dir)
			}
			s.Logger.Error("failed to keep a copy of the certificate authority, retrying: without it this "+
				"server cannot renew a certificate that has ended", "file", s.file, "error", err, "disk", disk)
		}

		told = fault

		select {
		case <-feed.Ready():
		case <-retry:
		case <-ctx.Done():
		}
	}
}

// keep writes the copy if the rows are newer and others.
func (s *Signer) keep() error {
	tx := s.Store.Read()
	now := kept{
		Index:       tx.Applied(),
		Authorities: slices.Collect(trust.Authorities(tx)),
	}

	for _, a := range now.Authorities {
		// The copy needs the root keys, too: the rows of the store may be behind it when it is used.
		row := trust.RootKey(tx, a.Key.KeyID)
		if row != nil && !slices.Contains(now.RootKeys, row) {
			now.RootKeys = append(now.RootKeys, row)
		}
	}

	if len(now.Authorities) == 0 {
		return nil
	}

	former, err := s.read()
	if err != nil {
		s.Logger.Warn("the copy of the certificate authority is damaged; writing it again", "error", err)
		former = &kept{}
	}

	if former.Index > now.Index { // entries of the log are not applied yet
		return nil
	}

	// The file is written only if it differs, because the index alone changes with each entry.
	same, err := former.same(now)
	if err != nil || same {
		return err
	}

	content, err := codec.Encode(&now)
	if err != nil {
		return err
	}

	return files.WriteDurable(s.file, content)
}

// same reports whether the rows of both are the same.
func (k kept) same(other kept) (bool, error) {
	k.Index = other.Index
	a, err := codec.Encode(&k)
	if err != nil {
		return false, err
	}
	b, err := codec.Encode(&other)
	return bytes.Equal(a, b), err
}

// read returns the copy, an empty one if there is none.
func (s *Signer) read() (*kept, error) {
	content, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return &kept{}, nil
	}

	k := &kept{}
	if err == nil {
		err = codec.Decode(content, k)
	}

	if err != nil {
		return nil, structs.Internalf("reading the copy %s of the certificate authority: %w", s.file, err)
	}

	return k, nil
}

// Former is the present certificate of this server.
type Former struct {
	Names []string // beside its role's
	End   time.Time
}

// Sign signs the next certificate of this server, for a signing request in DER. It has the names of the
// former one. It returns the certificate and the authorities to trust, in PEM.
func (s *Signer) Sign(ctx context.Context, csr []byte, former Former) (cert, trusted string, err error) {
	request, err := pki.ParseCSR(csr)
	if err != nil {
		return "", "", err
	}

	by, err := s.signer(ctx)
	if err != nil {
		return "", "", err
	}

	signed, err := by.Renew(request.Public, request.Identity, former.End, former.Names...)
	if err != nil {
		return "", "", err
	}

	return string(signed.PEM), by.Trusted(), nil
}

// Trusted returns the IDs of the authorities that are trusted, the one that signs first.
func (s *Signer) Trusted() (ids []string) {
	for _, a := range trust.TrustedAuthorities(s.rows(), time.Now().UnixNano()) {
		ids = append(ids, a.ID)
	}
	return ids
}

// Follows returns the authorities of Trusted for a server whose certificate is of an authority, by its ID. It
// returns none if the rows do not know that one: they are older than the certificate, with which the server
// has joined again. It would sign a certificate for itself that the others reject, and never get their rows.
func (s *Signer) Follows(issuer string) []string {
	known := func(a *cluster.Authority) bool { return a.ID == issuer || slices.Contains(a.Formers, issuer) }
	if issuer != "" && !slices.ContainsFunc(s.rows(), known) {
		return nil
	}
	return s.Trusted()
}

// Removed returns the IDs of the authorities that have signed before, and are no longer trusted.
func (s *Signer) Removed() (ids []string) {
	trusted := s.Trusted()
	if len(trusted) == 0 {
		return nil
	}
	for _, a := range s.rows() {
		if a.ID != trusted[0] {
			continue
		}
		for _, id := range a.Formers {
			if !slices.Contains(trusted, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// rows returns the authorities of the store, or of a newer copy.
func (s *Signer) rows() []*cluster.Authority {
	if k := s.newer(); k != nil {
		return k.Authorities
	}
	return authority.RowsOf(s.Store)()
}

// newer returns the copy if it is newer than the rows of the store: this server has not applied its log yet.
// Else it returns nil.
func (s *Signer) newer() *kept {
	k, err := s.read()
	if err != nil {
		s.Logger.Error("cannot use the copy of the certificate authority", "error", err)
		return nil
	}
	if k.Index <= s.Store.Index() {
		return nil
	}
	return k
}

// signer returns the signer with the rows of the store, or with a newer copy.
func (s *Signer) signer(ctx context.Context) (by authority.Signer, err error) {
	by = authority.Signer{
		Rows: authority.RowsOf(s.Store),
		Keys: s.Keys,
		Now:  time.Now,
	}

	if k := s.newer(); k != nil {
		by.Rows = func() []*cluster.Authority { return k.Authorities }

		// The ring of the server follows its rows, which do not have these keys yet.
		by.Keys, err = s.Keyring.Unwrap(ctx, k.RootKeys)
	}

	return by, err
}
