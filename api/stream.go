package api

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"sync"

	"berth/internal/fastjson"
	"berth/rpc"
	"berth/structs"
)

// A list is written while it is read, row by row: neither the server nor the client that wants all of it
// makes it whole in memory. Where the servers are in this process its rows are of one snapshot; elsewhere it
// is fetched page by page.

// rowsPerPage is how many rows are fetched at once from servers elsewhere.
const rowsPerPage = 1000

// A list is written in pieces: a small one first, so that who waits sees something, then large ones, which
// cost less.
const (
	firstPiece = 32 << 10
	nextPieces = 256 << 10
)

// rowStream is an answer that is a list of rows, each made when it is its turn.
type rowStream func(do func(row any) error) error

// list is read for a method that answers a list. One that is a page, or that is to be read by people, is
// fetched whole, as is, from servers elsewhere, one that waits for news.
func list[Req, Resp, Row any](m structs.Method[Req, Resp], bind func(*call, *Req) error,
	pick func(*Resp) []*Row) serveFunc {
	return func(c *call) (any, error) {
		req := new(Req)
		q := any(req).(interface{ Query() *structs.QueryOptions }).Query()
		if err := c.bindQuery(q); err != nil {
			return nil, err
		}
		if bind != nil {
			if err := bind(c, req); err != nil {
				return nil, err
			}
		}
		pretty, err := c.flag("pretty")
		if err != nil {
			return nil, err
		}
		whole := pretty || q.PerPage > 0
		if q.Stream = !whole; q.Stream && q.MinIndex == 0 {
			q.PerPage = rowsPerPage
		}
		resp, err := rpc.Call(c.ctx(), c.h.Caller, m, req)
		if err != nil {
			return nil, err
		}
		meta := any(resp).(interface{ Meta() *structs.QueryMeta }).Meta()
		if pretty {
			c.setMeta(meta)
			return pick(resp), nil
		}
		rows, next := rowStream(meta.Rows), meta.NextToken
		if whole {
			next = ""
		} else {
			meta.NextToken = "" // all there is follows
		}
		if rows == nil {
			rows = pages(c, m, req, pick(resp), next, pick)
		}
		c.setMeta(meta)
		return rows, nil
	}
}

// pages are the rows of a page that is there and of those that follow it.
func pages[Req, Resp, Row any](c *call, m structs.Method[Req, Resp], req *Req, page []*Row, next string,
	pick func(*Resp) []*Row) rowStream {
	return func(do func(any) error) error {
		for {
			for _, row := range page {
				if err := do(row); err != nil {
					return err
				}
			}
			q := any(req).(interface{ Query() *structs.QueryOptions }).Query()
			if next == "" || next == q.NextToken {
				return nil
			}
			own := *req // the last one may be in use still
			any(&own).(interface{ Query() *structs.QueryOptions }).Query().NextToken = next
			req = &own
			resp, err := rpc.Call(c.ctx(), c.h.Caller, m, req)
			if err != nil {
				return err
			}
			page, next = pick(resp), any(resp).(interface{ Meta() *structs.QueryMeta }).Meta().NextToken
		}
	}
}

// renderRows writes a list as JSON while it is made.
func (c *call) renderRows(rows rowStream) error {
	out := &pieces{c: c, draft: drafts.Get().(*draft)}
	defer out.release()
	before := byte('[')
	err := rows(func(row any) (err error) {
		out.buf = append(out.buf, before)
		before = ','
		if out.buf, err = out.Append(out.buf, row); err != nil {
			return err
		}
		return out.flush()
	})
	if err != nil {
		return err // what has been written is no JSON: nobody takes it for the whole
	}
	if before == '[' {
		out.buf = append(out.buf, '[')
	}
	out.buf = append(out.buf, "]\n"...)
	return out.end()
}

// draft is what an answer is made in before it is written.
type draft struct {
	fastjson.Encoder
	buf []byte
}

// drafts are used again.
var drafts = sync.Pool{New: func() any { return new(draft) }}

// release gives a draft back; nobody may have kept anything of it.
func (d *draft) release() {
	if cap(d.buf) > 2*nextPieces {
		d.buf = nil // one large row is no reason to keep so much
	}
	d.buf = d.buf[:0]
	drafts.Put(d)
}

// pieces writes an answer piece by piece, compressed if the client likes. One that fits the first piece is
// written like any other answer.
type pieces struct {
	*draft
	c   *call
	out io.Writer // nil before the first piece
	zip *gzip.Writer
}

// flush writes what has been gathered, if that is worth it.
func (p *pieces) flush() error {
	if len(p.buf) < firstPiece || p.out != nil && len(p.buf) < nextPieces {
		return nil
	}
	if p.out == nil {
		p.begin()
	}
	return p.write()
}

func (p *pieces) write() error {
	if _, err := p.out.Write(p.buf); err != nil {
		return err
	}
	p.buf = p.buf[:0]
	if p.zip != nil {
		if err := p.zip.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(p.c.w).Flush()
}

func (p *pieces) begin() {
	h := p.c.beginJSON()
	p.out = p.c.w
	if p.c.takesGzip() {
		h.Set("Content-Encoding", "gzip")
		p.zip = newGzip(p.c.w)
		p.out = p.zip
	}
	p.c.w.WriteHeader(http.StatusOK)
}

// end writes what is left.
func (p *pieces) end() error {
	if p.out == nil {
		p.c.write(http.StatusOK, p.buf)
		return nil
	}
	_, err := p.out.Write(p.buf)
	if p.zip != nil {
		err = errors.Join(err, p.zip.Close())
	}
	return err
}

// release gives back what is used again.
func (p *pieces) release() {
	p.draft.release()
	if p.zip != nil {
		putGzip(p.zip)
	}
}
