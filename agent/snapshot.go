package agent

import (
	"context"
	"io"
	"net/http"

	"berth/api/nodehttp"
	"berth/internal/netfault"
	"berth/structs"
)

// forwardSnapshot forwards a snapshot request to the HTTP API of the leader.
func (l local) forwardSnapshot(ctx context.Context, method string, body io.Reader, w io.Writer) error {
	addr := l.server.LeaderHTTP()
	if addr == "" {
		return structs.Unavailablef("no leader is known; retry")
	}
	url := "http://" + addr + "/v1/operator/snapshot" // connect adds TLS
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}

	transport := nodehttp.Transport(l.connect, "") // the leader is no agent of a node
	transport.ResponseHeaderTimeout = 0            // a restore answers after the whole archive
	client := &http.Client{Transport: transport}
	resp, err := client.Do(req)
	if err != nil {
		return structs.Unavailablef("the leader at %s: %w", addr, netfault.Plain(err))
	}
	defer func() { _ = resp.Body.Close() }()

	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		kind := structs.KindFromHTTP(resp.StatusCode)
		return structs.Errorf(kind, "the leader at %s: %s", addr, text)
	}

	_, err = io.Copy(w, resp.Body)
	return err
}
