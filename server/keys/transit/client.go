package transit

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/netfault"
	"berth/structs"
)

// The bounds of a call.
const (
	timeout      = 20 * time.Second
	maxAnswer    = 32 << 10 // bytes of an answer
	maxComplaint = 1 << 10  // bytes of an answer that an error shows
	maxToken     = 8 << 10
	maxCA        = 1 << 20
)

// Client is the key of some settings. It is safe for concurrent use.
type Client struct {
	*Settings
	timeout time.Duration
}

// New returns the key of valid settings. It opens no connection.
func New(s *Settings) *Client { return &Client{s, timeout} }

// exchange is the body of a request, and the data of an answer.
type exchange struct {
	Plaintext  []byte `json:"plaintext,omitempty"` // in base64
	Ciphertext string `json:"ciphertext,omitempty"`
}

// Wrap encrypts a root key with the newest version of the key.
func (c *Client) Wrap(ctx context.Context, _ string, key []byte) ([]byte, error) {
	answer, err := c.call(ctx, "encrypt", exchange{Plaintext: key})
	if err == nil && answer.Ciphertext == "" {
		err = c.fault("encrypt", errors.New("the answer has no ciphertext"))
	}
	if err != nil {
		return nil, err
	}
	return []byte(answer.Ciphertext), nil
}

// Unwrap decrypts the result of Wrap, also with an older version of the key.
func (c *Client) Unwrap(ctx context.Context, _ string, wrapped []byte) ([]byte, error) {
	answer, err := c.call(ctx, "decrypt", exchange{Ciphertext: string(wrapped)})
	if err == nil && len(answer.Plaintext) == 0 {
		err = c.fault("decrypt", errors.New("the answer has no plaintext"))
	}
	if err != nil {
		return nil, err
	}
	return answer.Plaintext, nil
}

// fault adds the key and the action to an error.
func (c *Client) fault(action string, err error) error {
	return fmt.Errorf("%s, action %s: %w", c.Settings, action, err)
}

// call sends one request. It follows no redirection, because the token is for the address alone.
func (c *Client) call(ctx context.Context, action string, body exchange) (*exchange, error) {
	late := fmt.Errorf("no answer came within %s", c.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, late)
	defer cancel()

	req, err := c.request(ctx, action, body)
	if err != nil {
		return nil, c.fault(action, err)
	}

	config, err := c.tls()
	if err != nil {
		return nil, c.fault(action, err)
	}

	client := &http.Client{
		// A connection of its own: the files of this call decide about its certificate.
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			// The cause is the timeout of this call, or the end of the server.
			return nil, c.fault(action, context.Cause(ctx))
		}

		return nil, c.fault(action, netfault.Plain(err))
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := readAnswer(resp)
	if err != nil {
		return nil, c.fault(action, err)
	}

	return answer, nil
}

// request returns the request of an action.
func (c *Client) request(ctx context.Context, action string, body exchange) (*http.Request, error) {
	token, err := readFile(c.TokenFile, maxToken)
	if err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}

	// An agent of Vault writes the token with or without a line end.
	words := strings.Fields(string(token))
	if len(words) != 1 {
		return nil, fmt.Errorf("token_file: %s has no token, or several", c.TokenFile)
	}

	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}

	// The names were validated, so that none of them leaves its part of the path.
	address, err := url.JoinPath(c.Address, "v1", c.mount(), action, c.KeyName)
	if err != nil {
		return nil, err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}

	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Vault-Token", words[0])
	req.Header.Set("X-Vault-Request", "true") // listeners may demand it
	if c.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", strings.Trim(c.Namespace, "/"))
	}

	return req, nil
}

// tls returns the configuration of a connection, with the authorities as their file has them now.
func (c *Client) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile == "" {
		return config, nil
	}

	text, err := readFile(c.CAFile, maxCA)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}

	// The authorities of the file replace the system's: no other may vouch for the engine.
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca_file: %s has no certificate in PEM", c.CAFile)
	}

	return config, nil
}

// readFile reads a small file.
func readFile(path string, most int64) ([]byte, error) {
	// An open of a pipe does not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()

	// One byte more tells a file that is too long.
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}

	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}

	return text, nil
}

// readAnswer reads the data of an answer. The error shows the begin of the complaints, which have no key.
func readAnswer(resp *http.Response) (*exchange, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, netfault.Plain(err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}

	if resp.StatusCode != http.StatusOK {
		var complaint struct {
			Errors []string `json:"errors"`
		}

		_ = json.Unmarshal(text, &complaint) // a proxy may answer with another text
		return nil, fmt.Errorf("%s%s: %s", resp.Status, remedy(resp),
			structs.Cut(strings.Join(complaint.Errors, "; "), maxComplaint))
	}

	var answer struct {
		Data exchange `json:"data"`
	}

	if json.Unmarshal(text, &answer) != nil { // its error may show a part of the key
		return nil, errors.New("the answer is no JSON of the transit engine")
	}

	return &answer.Data, nil
}

// remedy explains a status to an operator.
func remedy(resp *http.Response) string {
	switch code := resp.StatusCode; {
	case code == http.StatusForbidden:
		return " (the token has ended, or its policy does not allow update on this path)"
	case code == http.StatusNotFound:
		return " (no engine is at mount_path)"
	case code == http.StatusServiceUnavailable:
		return " (it is sealed, or not ready)"
	case code >= 300 && code < 400:
		return " (it names another address, which has to be in the setting address)"
	}

	return ""
}
