package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"berth/rpc"
	"berth/structs"
)

// A list is written while it is read, row by row: neither the server nor the client that wants all of it
// makes it whole in memory. Where the servers are in this process its rows are of one snapshot; elsewhere it
// is fetched page by page.

// rowsPerPage is how many rows are fetched at once from servers elsewhere.
const rowsPerPage = 1000

// streamChunk is how much of a list is written at once.
const streamChunk = 32 << 10

// rowStream is an answer that is a list of rows, each made when it is its turn.
type rowStream func(do func(row any) error) error

// list is read for a method that answers a list. One that waits for news, or that is to be read by people,
// is made whole.
func list[Req, Resp, Row any](m structs.Method[Req, Resp], bind func(*call, *Req) error, pick func(*Resp) []*Row) endpoint {
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
		whole := pretty || q.MinIndex > 0 || q.PerPage > 0
		if !whole {
			q.Stream, q.PerPage = true, rowsPerPage
		}
		resp, err := rpc.Call(c.ctx(), c.h.Caller, m, req)
		if err != nil {
			return nil, err
		}
		meta := any(resp).(interface{ Meta() *structs.QueryMeta }).Meta()
		if whole {
			c.setMeta(meta)
			return pick(resp), nil
		}
		rows := rowStream(meta.Rows)
		if rows == nil {
			rows = pages(c, m, req, pick(resp), meta.NextToken, pick)
		}
		meta.NextToken = "" // all there is follows
		c.setMeta(meta)
		return rows, nil
	}
}

// pages are the rows of a page that is there and of those that follow it.
func pages[Req, Resp, Row any](c *call, m structs.Method[Req, Resp], req *Req, page []*Row, next string, pick func(*Resp) []*Row) rowStream {
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
	out := &chunks{c: c}
	enc := json.NewEncoder(&out.buf)
	before := byte('[')
	err := rows(func(row any) error {
		out.buf.WriteByte(before)
		before = ','
		if err := enc.Encode(row); err != nil {
			return err
		}
		out.buf.Truncate(out.buf.Len() - 1) // the encoder's line end
		return out.flush(streamChunk)
	})
	if err != nil {
		return err // what has been written is no JSON: nobody takes it for the whole
	}
	if before == '[' {
		out.buf.WriteByte('[')
	}
	out.buf.WriteString("]\n")
	return out.end()
}

// chunks gathers an answer and writes it in large pieces, compressed if the client likes. One that fits a
// piece is written like any other answer.
type chunks struct {
	c   *call
	buf bytes.Buffer
	out io.Writer // nil before the first piece
	zip *gzip.Writer
}

func (w *chunks) flush(from int) error {
	if w.buf.Len() < from {
		return nil
	}
	if w.out == nil {
		w.begin()
	}
	if _, err := w.buf.WriteTo(w.out); err != nil {
		return err
	}
	if w.zip != nil {
		if err := w.zip.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.c.w).Flush()
}

func (w *chunks) begin() {
	h := w.c.beginJSON()
	w.out = w.c.w
	if strings.Contains(w.c.r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		w.zip = gzip.NewWriter(w.c.w)
		w.out = w.zip
	}
	w.c.w.WriteHeader(http.StatusOK)
}

// end writes what is left.
func (w *chunks) end() error {
	if w.out == nil {
		w.c.write(http.StatusOK, w.buf.Bytes())
		return nil
	}
	err := w.flush(0)
	if w.zip != nil {
		err = errors.Join(err, w.zip.Close())
	}
	return err
}
