package httpshed

import "bytes"

// head is what was understood of the head of a request.
type head struct {
	method, target []byte
	sized          bool  // it says how long its body is
	body           int64 // so many bytes
}

// plainGET reports whether that is all there is to it.
func (h *head) plainGET() bool { return string(h.method) == "GET" && !h.sized }

var (
	lineEnd  = []byte("\r\n")
	blankEnd = []byte("\r\n\r\n")
	methods  = [][]byte{[]byte("GET "), []byte("PUT "), []byte("POST "), []byte("DELETE ")}
)

// parse understands b when it is exactly a head and nothing of it can be understood in two ways: of HTTP/1.1, by
// path, with one host, at most a length of its body, and nothing that changes what the connection is used for. It
// knows far less than net/http does, on purpose: what it does not understand is not wrong.
func parse(b []byte) (h head, ok bool) {
	for _, m := range methods {
		if bytes.HasPrefix(b, m) {
			h.method = m[:len(m)-1]
		}
	}
	if h.method == nil || !bytes.HasSuffix(b, blankEnd) {
		return h, false
	}
	line, rest, _ := bytes.Cut(b[len(h.method)+1:len(b)-len(lineEnd)], lineEnd)
	h.target, ok = bytes.CutSuffix(line, []byte(" HTTP/1.1"))
	if !ok || !isTarget(h.target) {
		return h, false
	}
	hosts := 0
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, lineEnd)
		name, value, isField := bytes.Cut(line, []byte(":"))
		if !isField || !isName(name) || !isValue(value) || !h.field(name, bytes.Trim(value, " \t"), &hosts) {
			return h, false
		}
	}
	return h, hosts == 1
}

// notPlain are the fields, beside those that field knows, that say something of a body, of the connection or of
// who answers.
var notPlain = []string{"Transfer-Encoding", "Trailer", "TE", "Expect", "Upgrade", "HTTP2-Settings", "Proxy-Connection"}

// field takes in a field and returns false when it makes the head one that is not understood.
func (h *head) field(name, value []byte, hosts *int) bool {
	switch {
	case is(name, "Host"):
		*hosts++
		return isHostname(value)
	case is(name, "Connection"):
		return is(value, "keep-alive")
	case is(name, "Content-Length"):
		again := h.sized
		h.sized = true
		for _, c := range value {
			h.body = 10*h.body + int64(c-'0')
		}
		return !again && isNumber(value)
	}
	for _, other := range notPlain {
		if is(name, other) {
			return false
		}
	}
	return true
}

// extent is how many bytes the request takes whose first bytes are b, or -1 when that is not sure. That of a GET
// is its head: should there be a body all the same, more will have been read than that.
func extent(b []byte) int64 {
	end := headEnd(b)
	if end == len(b) && bytes.HasPrefix(b, methods[0]) {
		return int64(end)
	}
	if end < 0 {
		return -1
	}
	h, ok := parse(b[:end])
	if !ok {
		return -1
	}
	return int64(end) + h.body
}

// headEnd is where the head that b begins with ends for whoever takes the least for its end: after the first line
// that shows nothing, whatever lines end with. It is -1 where there is none.
func headEnd(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return -1
		}
		line := b[at : at+n]
		at += n + 1
		if len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0 {
			return at
		}
	}
}

// is compares regardless of case.
func is(name []byte, other string) bool {
	return len(name) == len(other) && bytes.EqualFold(name, []byte(other))
}

// What a byte may be part of.
const (
	inTarget = 1 << iota
	inName
	inValue
	inHost
)

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

var classes = func() (of [256]byte) {
	for c := '!'; c <= '~'; c++ {
		of[c] = inValue | inTarget
	}
	of[' '], of['\t'] = inValue, inValue
	for _, c := range "#;\"<>\\^`{|}" { // in a target they are wrong, or not read alike by everybody
		of[c] &^= inTarget
	}
	for _, c := range alphanumeric + "-" {
		of[c] |= inHost | inName
	}
	for _, c := range "_.:[]" {
		of[c] |= inHost
	}
	return of
}()

func all(b []byte, class byte) bool {
	for _, c := range b {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}

func isTarget(b []byte) bool   { return len(b) > 0 && b[0] == '/' && all(b, inTarget) }
func isName(b []byte) bool     { return len(b) > 0 && all(b, inName) }
func isValue(b []byte) bool    { return all(b, inValue) }
func isHostname(b []byte) bool { return len(b) > 0 && all(b, inHost) }

// isNumber is of those that cannot be too large.
func isNumber(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 15
}
