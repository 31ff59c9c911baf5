package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"berth/structs/event"
)

// eventReader reads a stream of events over HTTP. It looks at the bytes of a line only as far as its counts
// need, because it shares the processors with the servers.
type eventReader struct {
	client *http.Client
	body   io.ReadCloser
	read   atomic.Int64    // events of plugin instances
	gaps   int             // how often it was told that it has missed some
	lag    []time.Duration // from the sending of a change until its event was here, one for a line
}

// readersPerAddress is below the bound of an agent for the streams of one caller. An agent without access
// control tells callers apart by their addresses.
const readersPerAddress = 50

// openReader opens a stream of the events from a log index on. The reader n of a load has an address of its
// own with few others. The caller calls close.
func openReader(ctx context.Context, addr string, n int, query url.Values) (*eventReader, error) {
	own := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n/readersPerAddress))}
	dialer := &net.Dialer{LocalAddr: own, Timeout: dialTimeout}
	r := &eventReader{client: &http.Client{Transport: &http.Transport{
		DialContext:        dialer.DialContext,
		DisableCompression: true,
		ReadBufferSize:     streamBuffer,
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+addr+"/v1/event/stream?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the stream of reader %d: %w", n, err)
	}
	r.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, errors.Join(fmt.Errorf("the stream of reader %d: %s: %s", n, resp.Status, text), r.close())
	}
	return r, nil
}

func (r *eventReader) close() error {
	err := r.body.Close()
	r.client.CloseIdleConnections()
	return err
}

// The buffer of a stream, and the longest line of it.
const (
	streamBuffer = 64 << 10
	longestLine  = 64 << 20
)

// errBrokeOff is the error of a stream that ended before its last event.
var errBrokeOff = errors.New("the stream of events broke off")

// run reads until the event of a last report.
func (r *eventReader) run() error {
	lines := bufio.NewScanner(r.body)
	lines.Buffer(make([]byte, streamBuffer), longestLine)
	for lines.Scan() {
		if r.count(lines.Bytes()) {
			return nil
		}
	}
	return errors.Join(errBrokeOff, lines.Err())
}

var (
	ofInstance = []byte(`"Topic":"` + event.Instance + `"`)
	ofStream   = []byte(`"Topic":"` + event.Stream + `"`)
)

// count counts the events of a line. It returns true for the events of a last report.
func (r *eventReader) count(line []byte) (last bool) {
	n := bytes.Count(line, ofInstance)
	if n == 0 {
		r.gaps += bytes.Count(line, ofStream)
		return false
	}
	sent, ok := sentAt(line)
	if ok && sent < 0 {
		return true
	}
	r.read.Add(int64(n))
	if ok {
		r.lag = append(r.lag, time.Duration(time.Now().UnixNano()-sent))
	}
	return false
}

// sentAt returns the number in the first report of a line: when a change was sent, or a negative number.
func sentAt(line []byte) (int64, bool) {
	_, rest, found := bytes.Cut(line, []byte(`"healthy `))
	number, _, ends := bytes.Cut(rest, []byte{'"'})
	if !found || !ends {
		return 0, false
	}
	n, err := strconv.ParseInt(string(number), 10, 64)
	return n, err == nil
}
