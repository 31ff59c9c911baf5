package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"berth/internal/peertls"
	"berth/internal/pki"
)

// soon is the time in which a certificate that nobody renews has to be replaced.
const soon = 14 * 24 * time.Hour

const renewRemedy = "look for the reason in the log of the agent; " +
	"docs/operations/tls.md tells how a certificate is replaced"

// checkCertificates reads the files of the block tls. Without TLS it looks for ports that others reach.
func checkCertificates(_ context.Context, m *Machine) []Finding {
	if !m.TLS.On() {
		return m.checkPlain()
	}

	info, err := os.Stat(m.TLS.KeyFile)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return one(Fail, fmt.Sprintf("tls.key_file: others may read %s", m.TLS.KeyFile),
			"chmod 600 "+m.TLS.KeyFile)
	}

	pair, err := tls.LoadX509KeyPair(m.TLS.CertFile, m.TLS.KeyFile)
	if err != nil {
		return one(Fail, fmt.Sprintf("tls.cert_file, tls.key_file: %v", err),
			"make them with berth tls join, or berth tls cert create")
	}

	authorities, err := readAuthorities(m.TLS.CAFile)
	if err != nil {
		return one(Fail, fmt.Sprintf("tls.ca_file: %v", err), "copy the certificate of the authority to it")
	}

	findings := m.checkCertificate(pair, authorities.pool)
	for _, authority := range authorities.list {
		if m.now.After(authority.NotAfter) {
			findings = append(findings, Finding{
				Result: Warn,
				Text:   fmt.Sprintf("tls.ca_file: an authority has ended %s", humanDate(authority)),
				Remedy: "if it is the only one: berth tls ca replace, on a server; else remove it from the file",
			})
		}
	}
	return findings
}

// checkCertificate checks the times and the issuer of the certificate of the agent.
func (m *Machine) checkCertificate(pair tls.Certificate, authorities *x509.CertPool) []Finding {
	cert := pair.Leaf
	left := cert.NotAfter.Sub(m.now)
	life := peertls.LifeOf(cert)
	switch {
	case m.now.Before(cert.NotBefore) && m.TLS.Renew:
		return one(Warn, fmt.Sprintf("tls.cert_file: the certificate begins %s: the clock was ahead, or is late now", cert.NotBefore.UTC().Format(date)),
			"see that the clock is right; the agent then renews the certificate within a minute by itself")
	case m.now.Before(cert.NotBefore):
		return one(Fail, fmt.Sprintf("tls.cert_file: the certificate begins %s", cert.NotBefore.UTC().Format(date)),
			"set the clock of this machine right, or make a certificate with berth tls cert create")
	case left <= 0:
		return one(Fail, "tls.cert_file: the certificate has ended "+humanDate(cert), renewRemedy)
	}

	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return one(Fail, fmt.Sprintf("tls.cert_file: %v", err), renewRemedy)
		}
		between.AddCert(c)
	}
	_, err := cert.Verify(x509.VerifyOptions{
		Roots:         authorities,
		Intermediates: between,
		CurrentTime:   m.now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	switch {
	case err != nil:
		return one(Fail, fmt.Sprintf("tls.cert_file: no authority of tls.ca_file has signed it: %v", err),
			"copy the certificate of the authority that has signed it to tls.ca_file")
	case m.TLS.Renew && left < life/6: // the agent renews it when two thirds of its life are over
		return one(Warn, "the agent has not renewed its certificate, which ends "+humanDate(cert), renewRemedy)
	case !m.TLS.Renew && left < soon:
		return one(Warn, "the certificate ends "+humanDate(cert)+", and tls.renew is not set",
			"berth tls cert create makes the next one")
	}
	return one(OK, "the certificate is valid until "+humanDate(cert), "")
}

// checkPlain warns of ports that others reach without TLS.
func (m *Machine) checkPlain() []Finding {
	for _, p := range m.Ports {
		host, _, err := net.SplitHostPort(p.Address)
		ip := net.ParseIP(host)
		if err == nil && ip != nil && !ip.IsLoopback() {
			return one(Warn, fmt.Sprintf("%s is open at %s without TLS: all that reach it may do everything",
				p.Setting, p.Address), "berth tls init makes certificates; or bind_addr = \"127.0.0.1\"")
		}
	}
	return one(Skip, "TLS is off, and all ports are on loopback", "")
}

// date is the form of a day in texts.
const date = "2006-01-02 15:04 MST"

func humanDate(cert *x509.Certificate) string { return cert.NotAfter.UTC().Format(date) }

// authorities are the certificates of a file.
type authorities struct {
	list []*x509.Certificate
	pool *x509.CertPool
}

func readAuthorities(path string) (authorities, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return authorities{}, err
	}
	list, err := pki.ParseCertificates(content)
	if err != nil {
		return authorities{}, fmt.Errorf("%s %w", path, err)
	}
	a := authorities{list: list, pool: x509.NewCertPool()}
	for _, cert := range list {
		a.pool.AddCert(cert)
	}
	return a, nil
}
