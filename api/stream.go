package api

import (
	"compress/gzip"
	"context"
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

// rowsPerPage is the number of rows in a page from another process. A page is in memory whole, and costs a
// call.
const rowsPerPage = 1000

// The sizes of the chunks of a list. The first one is small so that the client sees rows soon. Large ones
// cost less.
const (
	firstChunk = 32 << 10
	nextChunks = 256 << 10
)

// rowStream calls do for each row of a list.
type rowStream func(do func(row any) error) error

// ServeList is like ServeMethod, for a method that returns a list. It fetches the list whole if the request
// asks for one page or for indented JSON, and also if a server in another process blocks the query.
func ServeList[Req, Resp, Row any](
	m structs.Method[Req, Resp],
	bind func(*Call, *Req) error,
	pick func(*Resp) []*Row,
) ServeFunc[[]*Row] {
	return callList(rpc.MethodOf(m), bindAny(bind), func(resp any) rowsOf {
		rows := pick(resp.(*Resp))
		return rowsOf{
			whole: rows,
			each: func(do func(row any) error) error {
				for _, row := range rows {
					if err := do(row); err != nil {
						return err
					}
				}
				return nil
			},
		}
	})
}

// rowsOf are the rows of a page: as a slice and one by one.
type rowsOf struct {
	whole any
	each  rowStream
}

// callList is ServeList without the types of the method, so that its code is in the program once. The
// compiler would inline it for each method.
//
//go:noinline
func callList(
	m rpc.Method,
	bind func(c *Call, req any) error,
	pick func(resp any) rowsOf,
) func(*Call) (any, error) {
	return func(c *Call) (any, error) {
		req := m.NewRequest()
		err := bindRequest(c, req, bind)
		if err != nil {
			return nil, err
		}

		pretty, err := c.Flag("pretty")
		if err != nil {
			return nil, err
		}

		q := req.(readRequest).Query()
		q.Stream = !pretty && q.PerPage == 0
		if q.Stream && q.MinIndex == 0 {
			q.PerPage = rowsPerPage
		}

		l := list{
			ctx:    c.Ctx(),
			caller: c.Caller,
			method: m,
			req:    req,
			pick:   pick,
		}

		// The first page is fetched before the first byte, so that an error still has its status.
		first, err := l.fetchPage(q.NextToken)
		if err != nil {
			return nil, err
		}

		if q.Stream {
			first.meta.NextToken = "" // the answer has all pages
		} else {
			first.next = ""
		}

		c.setMeta(first.meta)
		switch {
		case pretty:
			return first.rows.whole, nil
		case first.meta.Rows != nil:
			return rowStream(first.meta.Rows), nil
		}

		return l.streamFrom(first), nil
	}
}

// list is a list that is fetched page by page.
type list struct {
	ctx    context.Context
	caller rpc.Caller
	method rpc.Method
	req    any
	pick   func(resp any) rowsOf
}

// page is a page that a token stands for, and the token of the next page.
type page struct {
	rows        rowsOf
	token, next string
	meta        *structs.QueryMeta
}

func (l list) fetchPage(token string) (page, error) {
	req := l.method.CopyRequest(l.req) // because the last request may still be in use
	req.(readRequest).Query().NextToken = token
	resp := l.method.NewAnswer()
	err := l.caller.Call(l.ctx, l.method.Name, req, resp)
	if err != nil {
		return page{}, err
	}
	meta := resp.(readResponse).Meta()
	return page{
		rows:  l.pick(resp),
		token: token,
		next:  meta.NextToken,
		meta:  meta,
	}, nil
}

// streamFrom streams the rows of a page and of the pages after it.
func (l list) streamFrom(p page) rowStream {
	return func(do func(any) error) error {
		for {
			err := p.rows.each(do)
			if err != nil {
				return err
			}
			// A server that repeats its token would keep the list going for ever.
			if p.next == "" || p.next == p.token {
				return nil
			}
			p, err = l.fetchPage(p.next)
			if err != nil {
				return err
			}
		}
	}
}

// renderRows writes a list as JSON while it reads the rows. It is a valid list only when it has ended, so a
// client notices a part.
func (c *Call) renderRows(rows rowStream) error {
	out := &chunkWriter{
		c:     c,
		draft: drafts.Get().(*draft),
	}
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

	// A list without rows has had no bracket.
	if before == '[' {
		out.buf = append(out.buf, '[')
	}

	out.buf = append(out.buf, "]\n"...)
	return out.finish()
}

// draft is a buffer with an encoder. Both keep their memory between answers. One call uses a draft at a time.
type draft struct {
	fastjson.Encoder
	buf []byte
}

// drafts has drafts for reuse.
var drafts = sync.Pool{
	New: func() any { return new(draft) },
}

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
	c   *Call
	out io.Writer // nil before the first chunk
	zip *gzip.Writer
}

// flushChunk writes the buffer if it has the size of a chunk. It runs after each row, so that a row is never
// split.
func (p *chunkWriter) flushChunk() error {
	if len(p.buf) < firstChunk ||
		p.out != nil && len(p.buf) < nextChunks {
		return nil
	}

	if p.out == nil {
		p.writeHeader()
	}

	_, err := p.out.Write(p.buf)
	if err != nil {
		return err
	}

	p.buf = p.buf[:0]
	if p.zip != nil {
		err = p.zip.Flush()
		if err != nil {
			return err
		}
	}

	// Without it net/http would hold back the rows.
	return http.NewResponseController(p.c.Writer).Flush()
}

// writeHeader comes with the first chunk, until which an error can have a status.
func (p *chunkWriter) writeHeader() {
	h := p.c.setJSONHeaders()
	p.out = p.c.Writer
	if p.c.acceptsGzip() {
		h.Set("Content-Encoding", "gzip")
		p.zip = newGzip(p.c.Writer)
		p.out = p.zip
	}
	p.c.Writer.WriteHeader(http.StatusOK)
}

// finish writes the rest of the buffer.
func (p *chunkWriter) finish() error {
	// Nothing was sent yet, so the answer can have a length.
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

// withResources adds the resources of each allocation of a list (Allocation.WithResources).
func WithResources(serve ServeFunc[[]*structs.Allocation]) ServeFunc[[]*structs.Allocation] {
	return func(c *Call) (any, error) {
		answer, err := serve(c)
		switch list := answer.(type) {
		case []*structs.Allocation:
			for i, a := range list {
				list[i] = a.WithResources()
			}
		case rowStream:
			return rowStream(func(do func(any) error) error {
				return list(func(row any) error {
					return do(row.(*structs.Allocation).WithResources())
				})
			}), err
		}
		return answer, err
	}
}
