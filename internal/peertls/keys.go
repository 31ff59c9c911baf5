package peertls

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/pki"
	"berth/structs"
)

// MaxFile is the most bytes of a file with certificates or a key.
const MaxFile = 1 << 20

// pollInterval is the time between two looks at the files.
const pollInterval = 10 * time.Second

// Keys has the certificate of an agent, its key and the authorities that it trusts.
type Keys struct {
	cfg     Config
	region  string
	logger  hclog.Logger
	current atomic.Pointer[material]
	reading sync.Mutex // held while the files are read
	writing sync.Mutex // held while the files are written
	removed []string   // see SetRemoved; guarded by reading
	revoked atomic.Pointer[Revoked]
	open    openConns

	renewFault atomic.Pointer[error] // of the last attempt to renew the certificate; nil if it did not fail
}

// material is the content of the files.
type material struct {
	raw         [3][]byte // as in Config.files
	authorities []*x509.Certificate
	roots       *x509.CertPool // the authorities that are trusted, see trust
	cert        tls.Certificate
	begins      time.Time // the certificate in the file; cert is the former one before that
	identity    pki.Identity
	resumption
}

// Open reads the files of an agent of a region. role is the role that its certificate must give. The error
// names the file and its setting.
func Open(cfg Config, region string, role pki.Role, logger hclog.Logger) (*Keys, error) {
	k := &Keys{
		cfg:    cfg,
		region: region,
		logger: logger,
	}

	m, err := k.read()
	if err != nil {
		return nil, err
	}

	if m.identity.Role != role {
		return nil, structs.Invalidf("tls: cert_file %s is the certificate of %s; this agent needs one of a %s",
			cfg.CertFile, m.identity, role)
	}

	k.current.Store(m)
	k.warnOfOpenKey()
	return k, nil
}

// warnOfOpenKey warns if every user of the machine may read or change the key. A group may, because some
// tools give certificates to one.
func (k *Keys) warnOfOpenKey() {
	info, err := os.Stat(k.cfg.KeyFile)
	if err == nil && info.Mode().Perm()&0o007 != 0 {
		k.logger.Warn("every user of this machine has access to the key of the TLS certificate; "+
			"set its mode to 0600 (chmod 600)", "key_file", k.cfg.KeyFile, "mode", info.Mode().Perm().String())
	}
}

// Identity returns the identity in the certificate of this agent.
func (k *Keys) Identity() pki.Identity { return k.current.Load().identity }

// NodeID returns the ID of the node in the certificate of this agent, "" for a server.
func (k *Keys) NodeID() string {
	id := k.Identity()
	if id.Role != pki.RoleNode {
		return ""
	}
	return id.ID
}

// Serial returns the serial number of the certificate of this agent, in hexadecimal.
func (k *Keys) Serial() string { return pki.Serial(k.current.Load().cert.Leaf) }

// Certificate returns the certificate of this agent. Nobody may change it.
func (k *Keys) Certificate() *x509.Certificate { return k.current.Load().cert.Leaf }

// Expires returns the end of the certificate of this agent.
func (k *Keys) Expires() time.Time { return k.current.Load().cert.Leaf.NotAfter }

// Reload reads the files again, and reports whether they have changed. New connections use the new ones.
// If the files are not valid, nothing changes. Another identity needs a restart of the agent, so it is
// not valid.
func (k *Keys) Reload() (changed bool, err error) {
	k.reading.Lock()
	defer k.reading.Unlock()
	old := k.current.Load()
	next, err := k.read()
	if err != nil {
		return false, err
	}

	if next.same(old) {
		return false, nil
	}

	if next.identity != old.identity {
		return false, structs.Preconditionf("tls: cert_file %s is now the certificate of %s, and the agent runs "+
			"as %s; restart the agent, or put the former file back", k.cfg.CertFile, next.identity, old.identity)
	}

	k.current.Store(next)
	k.closeUntrusted() // a new certificate alone may end the trust in a removed authority, see trust

	k.logger.Info("read the TLS certificate again",
		"identity", next.identity.String(),
		"expires", next.cert.Leaf.NotAfter)
	return true, nil
}

// Run reads the files again when they change, until ctx ends. It logs a fault once until the fault is
// another, and warns once a day when the certificate or the authority ends soon.
func (k *Keys) Run(ctx context.Context) {
	logged := ""
	var warned time.Time
	var authority authorityWarning
	for backoff.Sleep(ctx, pollInterval) {
		authority.tell(k, time.Now())
		if now := time.Now(); k.endsSoon(now) && now.Sub(warned) >= 24*time.Hour {
			warned = now
			k.tellEnd(now)
		}

		_, err := k.Reload()
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if fault != "" && fault != logged {
			k.logger.Error("failed to read the TLS certificate again; the former one stays in use", "error",
				err)
		}
		logged = fault
	}
}

// tellEnd tells the log that the certificate ends soon, or that it has ended.
func (k *Keys) tellEnd(now time.Time) {
	values := []any{"expires", k.Expires()}
	if k.cfg.Renew {
		fault := "none yet"
		if err := k.RenewalFault(); err != nil {
			fault = err.Error()
		}
		values = append(values, "last_failure", fault)
	}

	switch lapsed := now.After(k.Expires()); {
	case lapsed && k.cfg.Renew:
		k.logger.Error("the TLS certificate of this agent has expired, and other agents reject it; the agent "+
			"goes on trying to renew it", values...)
	case lapsed:
		k.logger.Error("the TLS certificate of this agent has expired, and other agents reject it; put a new one into the same files", values...)
	case k.cfg.Renew:
		k.logger.Warn("the TLS certificate of this agent ends soon, and is not renewed yet; the agent goes on trying", values...)
	default:
		k.logger.Warn("the TLS certificate of this agent ends soon; put a new one into the same files",
			values...)
	}
}

// endsSoon reports whether less than a fifth of the life of the certificate is left.
func (k *Keys) endsSoon(now time.Time) bool {
	leaf := k.current.Load().cert.Leaf
	return leaf.NotAfter.Sub(now) < LifeOf(leaf)/5
}

func (k *Keys) read() (*material, error) {
	m := &material{resumption: newResumption()}
	for i, file := range k.cfg.files() {
		content, err := readFile(file)
		if err != nil {
			return nil, err
		}
		m.raw[i] = content
	}

	authorities, err := pki.ParseCertificates(m.raw[0])
	if err != nil {
		return nil, structs.Invalidf("tls: ca_file %s %w", k.cfg.CAFile, err)
	}
	m.authorities = authorities

	m.cert, err = tls.X509KeyPair(m.raw[1], m.raw[2])
	if err != nil {
		return nil, structs.Invalidf("tls: cert_file %s and key_file %s: %w", k.cfg.CertFile, k.cfg.KeyFile,
			err)
	}

	_ = k.trust(m) // all of the file is trusted then
	m.begins = m.cert.Leaf.NotBefore
	if time.Now().Before(m.begins) {
		k.takeFormer(m)
	}
	m.identity, err = k.check(m.cert, m.roots)
	if err != nil {
		return nil, structs.Invalidf("tls: cert_file %s: %w", k.cfg.CertFile, err)
	}

	return m, nil
}

// takeFormer uses the certificate that the one in the file has replaced, if that one is valid now. The clock
// was ahead when the present one was signed.
func (k *Keys) takeFormer(m *material) {
	content, err := readRegular(k.cfg.CertFile + formerSuffix)
	if err != nil {
		return
	}
	former, err := tls.X509KeyPair(content, m.raw[2])
	now := time.Now()
	if err != nil || now.Before(former.Leaf.NotBefore) || now.After(former.Leaf.NotAfter) {
		return
	}
	_, err = k.check(former, m.roots)
	if err == nil {
		m.cert = former
	}
}

// check verifies the certificate of this agent as the other ends will do. One that has ended, or that a wrong
// clock has dated ahead, is valid for an agent that renews it: the key is what the renewal needs.
func (k *Keys) check(cert tls.Certificate, roots *x509.CertPool) (pki.Identity, error) {
	chain := []*x509.Certificate{cert.Leaf}
	for _, der := range cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return pki.Identity{}, structs.Invalidf("certificate %d of the file: %w", len(chain)+1, err)
		}
		chain = append(chain, c)
	}

	at := time.Now()
	if k.cfg.Renew && at.After(cert.Leaf.NotAfter) {
		at = cert.Leaf.NotAfter
	}
	if k.cfg.Renew && at.Before(cert.Leaf.NotBefore) {
		at = cert.Leaf.NotBefore
	}

	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		err := verifyChainAt(at, chain, roots, use)
		if err != nil {
			return pki.Identity{}, err
		}
	}

	return identityIn(k.region, cert.Leaf)
}

func (m *material) same(other *material) bool {
	for i := range m.raw {
		if !bytes.Equal(m.raw[i], other.raw[i]) {
			return false
		}
	}
	return m.cert.Leaf.Equal(other.cert.Leaf)
}

// readFile reads a regular file of at most MaxFile bytes. A pipe would never end.
func readFile(file pemFile) ([]byte, error) {
	content, err := readRegular(file.path)
	if err != nil {
		return nil, structs.Invalidf("tls: %s: %w", file.setting, err)
	}
	return content, nil
}

func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path) // opening a pipe waits for a writer
	if err != nil {
		return nil, err
	}

	if !info.Mode().IsRegular() {
		return nil, errors.New(path + " is not a regular file")
	}

	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(content) > MaxFile {
		err = errors.New(path + " is larger than 1 MiB")
	}

	return content, err
}
