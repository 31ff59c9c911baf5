package api

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/structs"
)

// Sheds reports whether a GET of a target, path and query, asks for a read that may be refused while a server is
// asked for more than it can do: that of a route that says so, and not one that waits for news. stale says of
// such a read that any server may answer it, not the leader alone. It is false for targets that could be written
// in a simpler way, of which only ServeMux knows what they mean.
func Sheds(target []byte) (sheds, stale bool) {
	path, query, _ := bytes.Cut(target, []byte("?"))
	rest, ok := bytes.CutPrefix(path, []byte("/"))
	if !ok {
		return false, false
	}
	at := gets()
	for more := true; more && at != nil; {
		var segment []byte
		segment, rest, more = bytes.Cut(rest, []byte("/"))
		at = at.next(segment)
	}
	if at == nil || !at.sheds {
		return false, false
	}
	waits, stale := glance(query)
	return !waits, stale
}

// glance looks for the parameters that make a read wait, or that have any server answer it. What is written in an
// unusual way may be either, so it waits.
func glance(query []byte) (waits, stale bool) {
	stales := 0
	for more := true; more; {
		var param []byte
		param, query, more = bytes.Cut(query, []byte("&"))
		name, value, _ := bytes.Cut(param, []byte("="))
		switch {
		case string(name) == "index" || bytes.ContainsAny(name, "%+;") || bytes.IndexByte(value, ';') >= 0:
			return true, false
		case string(name) == "stale":
			stales++
			stale = len(value) == 0 || string(value) == "true"
		}
	}
	return false, stale && stales == 1
}

// place is where one is in the paths that can be got, after some segments.
type place struct {
	named map[string]*place
	id    *place // of a segment of any other name
	sheds bool
}

// gets begins all paths of the table that can be got. As ServeMux does, it takes the name before the {id}.
var gets = sync.OnceValue(func() *place { return placesOf(Routes()) })

func placesOf(routes []Route) *place {
	root := &place{}
	for _, r := range routes {
		if r.Methods != get {
			continue
		}
		at := root
		for segment := range strings.SplitSeq(r.Path[1:], "/") {
			at = at.grow(segment)
		}
		at.sheds = r.Sheds
	}
	return root
}

func (p *place) grow(segment string) *place {
	to := &p.id
	if !strings.HasPrefix(segment, "{") {
		if p.named == nil {
			p.named = map[string]*place{}
		}
		if p.named[segment] == nil {
			p.named[segment] = &place{}
		}
		return p.named[segment]
	}
	if *to == nil {
		*to = &place{}
	}
	return *to
}

// next is nil where no path goes on so, or only ServeMux knows.
func (p *place) next(segment []byte) *place {
	if to, ok := p.named[string(segment)]; ok {
		return to
	}
	if !isPlainSegment(segment) {
		return nil
	}
	return p.id
}

// isPlainSegment is of those that mean what they say: nothing is escaped, or taken out of a path.
func isPlainSegment(s []byte) bool {
	for _, c := range s {
		if c != '-' && c != '_' && c != '.' && c != '~' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(s) > 0 && s[0] != '.'
}

// AppendUnavailable appends a whole answer of HTTP/1.1: the one that a request gets that is unavailable for a
// while, for who answers without net/http.
func AppendUnavailable(b []byte, text string, again time.Duration, closes bool) []byte {
	b = append(b, unavailableHead...)
	if closes {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, headerRetryAfter+": "...)
	b = strconv.AppendInt(b, int64((again+time.Second-1)/time.Second), 10)
	b = append(b, "\r\n"+headerRetryExact+": "...)
	b = strconv.AppendInt(b, int64((again+time.Millisecond-1)/time.Millisecond), 10)
	b = append(b, "ms\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(text)+1), 10)
	b = append(b, "\r\n\r\n"...)
	b = append(b, text...)
	return append(b, '\n')
}

var unavailableHead = "HTTP/1.1 " + strconv.Itoa(structs.KindUnavailable.HTTPStatus()) + " " +
	http.StatusText(structs.KindUnavailable.HTTPStatus()) + "\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n" +
	headerErrorKind + ": " + string(structs.KindUnavailable) + "\r\n"
