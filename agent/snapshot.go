package agent

import (
	"context"
	"io"
	"net/http"

	"berth/api"
	"berth/api/transport"
	"berth/internal/keyring"
	"berth/internal/netfault"
	"berth/structs"
)

// forwarded is a snapshot request for the leader.
type forwarded struct {
	method string
	token  string // the secret of the caller, "" without one
	body   io.Reader
	keys   keyring.RestoreKeys
}

// request returns the request to the leader. secure says that no plain connection is made.
func (f forwarded) request(ctx context.Context, leader string, secure bool) (*http.Request, error) {
	if leader == "" {
		return nil, structs.Unavailablef("no leader is known; retry")
	}

	// The key decrypts the archive, and so all secrets of the cluster.
	if f.keys.File != "" && !secure && !transport.Private(leader) {
		return nil, structs.Preconditionf("this server does not lead, and without tls { mode = \"require\" "+
			"} the key of the archive would cross the network in plain form; run the command on the "+
			"machine of the leader, %s", leader)
	}

	url := "http://" + leader + "/v1/operator/snapshot" // connect adds TLS
	req, err := http.NewRequestWithContext(ctx, f.method, url, f.body)
	if err != nil {
		return nil, err
	}

	f.keys.SetHeader(req.Header)
	// With TLS the leader takes the word of this server, and otherwise it asks about the token.
	req.Header.Set(api.HeaderPassedOn, "1")
	if f.token != "" {
		req.Header.Set("X-Berth-Token", f.token)
	}
	return req, nil
}

// forwardSnapshot forwards a snapshot request to the HTTP API of the leader.
func (l local) forwardSnapshot(ctx context.Context, f forwarded, w io.Writer) error {
	req, err := f.request(ctx, l.server.LeaderHTTP(), l.config().TLS.Required())
	if err != nil {
		return err
	}

	toLeader := api.NodeTransport(l.connect, "") // the leader is no agent of a node
	toLeader.ResponseHeaderTimeout = 0           // a restore answers after the whole archive

	// The client has no timeout: an archive takes as long as its size needs. The caller's context ends the
	// transfer.
	client := &http.Client{
		Transport: toLeader,
		// A restore would become a read, and so a success that has restored nothing.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return structs.Unavailablef("the leader at %s: %w", req.URL.Host, netfault.Plain(err))
	}
	defer func() { _ = resp.Body.Close() }()

	if resp.StatusCode != http.StatusOK {
		// The text of an error is short. The bound keeps a wrong peer from filling the memory.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		kind := structs.KindFromHTTP(resp.StatusCode)
		return structs.Errorf(kind, "the leader at %s: %s", req.URL.Host, text)
	}

	// The archive may be larger than the memory, so it is passed on as it comes.
	_, err = io.Copy(w, resp.Body)
	return err
}
