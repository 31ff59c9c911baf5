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

// The handler writes a list row by row while it reads the list, so that the list is never whole in memory. If
// the server is in this process, the rows are of one snapshot. Otherwise the handler fetches them page by
// page.

// rowsPerPage is the number of rows in a page from another process.
const rowsPerPage = 1000

// The sizes of the chunks of a list. The first one is small so that the client sees rows soon. Large ones
// cost less.
const (
	firstChunk = 32 << 10
	nextChunks = 256 << 10
)

// rowStream calls do for each row of a list.
type rowStream func(do func(row any) error) error

// serveList is like serveRead, for a method that returns a list. It fetches the list whole if the request
// asks for one page or for indented JSON, and also if a server in another process blocks the query.
func serveList[Req, Resp, Row any](
	m structs.Method[Req, Resp], bind func(*call, *Req) error, pick func(*Resp) []*Row,
) serveFunc {
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
		q.Stream = !whole
		if q.Stream && q.MinIndex == 0 {
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
			meta.NextToken = "" // the answer has all pages
		}
		if rows == nil {
			rows = rowsOfPages(c, m, req, pick(resp), next, pick)
		}
		c.setMeta(meta)
		return rows, nil
	}
}

// rowsOfPages streams the rows of a page and fetches the following pages.
func rowsOfPages[Req, Resp, Row any](
	c *call, m structs.Method[Req, Resp], req *Req, page []*Row, next string, pick func(*Resp) []*Row,
) rowStream {
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
			following := *req // a copy, because the last request may still be in use
			any(&following).(interface{ Query() *structs.QueryOptions }).Query().NextToken = next
			req = &following
			resp, err := rpc.Call(c.ctx(), c.h.Caller, m, req)
			if err != nil {
				return err
			}
			page = pick(resp)
			next = any(resp).(interface{ Meta() *structs.QueryMeta }).Meta().NextToken
		}
	}
}

// renderRows writes a list as JSON while it reads the rows.
func (c *call) renderRows(rows rowStream) error {
	out := &chunkWriter{c: c, draft: drafts.Get().(*draft)}
	defer out.release()
	before := byte('[')
	err := rows(func(row any) (err error) {
		out.buf = append(out.buf, before)
		before = ','
		out.buf, err = out.Append(out.buf, row)
		if err != nil {
			return err
		}
		return out.flushChunk()
	})
	if err != nil {
		return err // the client cannot take the part for the whole, because the part is not valid JSON
	}
	if before == '[' {
		out.buf = append(out.buf, '[')
	}
	out.buf = append(out.buf, "]\n"...)
	return out.finish()
}

// draft is a buffer with an encoder.
type draft struct {
	fastjson.Encoder
	buf []byte
}

// drafts has drafts for reuse.
var drafts = sync.Pool{New: func() any { return new(draft) }}

// release returns a draft to the pool. The caller must not use its buffer afterwards.
func (d *draft) release() {
	if cap(d.buf) > 2*nextChunks {
		d.buf = nil // the pool does not keep the memory of a large row
	}
	d.buf = d.buf[:0]
	drafts.Put(d)
}

// chunkWriter writes an answer in chunks and compresses it if the client accepts that. An answer that fits
// into the first chunk is written like any other answer.
type chunkWriter struct {
	*draft
	c   *call
	out io.Writer // nil before the first chunk
	zip *gzip.Writer
}

// flushChunk writes the buffer if it has the size of a chunk.
func (p *chunkWriter) flushChunk() error {
	if len(p.buf) < firstChunk || p.out != nil && len(p.buf) < nextChunks {
		return nil
	}
	if p.out == nil {
		p.writeHeader()
	}
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

func (p *chunkWriter) writeHeader() {
	h := p.c.setJSONHeaders()
	p.out = p.c.w
	if p.c.acceptsGzip() {
		h.Set("Content-Encoding", "gzip")
		p.zip = newGzip(p.c.w)
		p.out = p.zip
	}
	p.c.w.WriteHeader(http.StatusOK)
}

// finish writes the rest of the buffer.
func (p *chunkWriter) finish() error {
	if p.out == nil {
		p.c.writeBody(http.StatusOK, p.buf)
		return nil
	}
	_, err := p.out.Write(p.buf)
	if p.zip != nil {
		err = errors.Join(err, p.zip.Close())
	}
	return err
}

// release returns the draft and the compressor to their pools.
func (p *chunkWriter) release() {
	p.draft.release()
	if p.zip != nil {
		putGzip(p.zip)
	}
}
