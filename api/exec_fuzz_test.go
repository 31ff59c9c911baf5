package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/api"
	"berth/structs"
	"berth/structs/nodecalls"
)

// input is the content of a message to a command, as the dialect writes it.
type input struct {
	Stdin *struct {
		Data  []byte
		Close bool
	}
	Size *nodecalls.TerminalSize `json:"tty_size"`
}

// inputOf returns the input of a command that gets messages. ended reports whether they have its end, or a
// message that is none.
func inputOf(messages []string) (text []byte, ended bool) {
	for _, m := range messages {
		var in input
		if json.Unmarshal([]byte(m), &in) != nil {
			return text, true
		}
		if in.Stdin != nil {
			text = append(text, in.Stdin.Data...)
			if in.Stdin.Close {
				return text, true
			}
		}
	}
	return text, false
}

// FuzzExecInput sends messages, one per line, to a command on its websocket. The command gets the input that
// they have, and ends with it.
func FuzzExecInput(f *testing.F) {
	for _, messages := range []string{
		"{}\n" + `{"stdin":{"data":"aGk="}}` + "\n" + `{"tty_size":{"height":2,"width":3}}` + "\n" + `{"stdin":{"close":true}}`,
		`{"stdin":{"data":"aGk=","close":true}}` + "\n" + `{"stdin":{"data":"aGk="}}`,
		`{"stdin":null,"tty_size":null}`, `{"stdin":{"data":null}}`, `{"stdin":{"data":"?"}}`, "null", "[]", "ls",
		`{"tty_size":{"height":-1,"width":99999999999}}`, `{"tty_size":{"height":1e400}}`,
		strings.Repeat("[", 20_000), `{"stdin":{"data":"` + strings.Repeat("QUFB", 300_000) + `"}}`,
	} {
		f.Add(messages, false)
		f.Add(messages, true)
	}
	s := newServer(f)
	got := make(chan []byte, 1)
	runsCommands(s, func(ctx context.Context, x *api.Exec) (int, error) {
		text, err := io.ReadAll(x.Stdin)
		got <- text
		if err != nil {
			return 0, err
		}
		return 7, ctx.Err()
	})
	f.Fuzz(func(t *testing.T, text string, binary bool) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ws, _, err := websocket.Dial(ctx, s.URL+execPath(`["sh"]`), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ws.CloseNow() }()
		messages := strings.Split(text, "\n")
		want, ended := inputOf(messages)
		kind := websocket.MessageText
		if binary {
			kind = websocket.MessageBinary
		}
		for _, m := range messages {
			if ws.Write(ctx, kind, []byte(m)) != nil {
				break // it has ended
			}
		}
		if !ended {
			_ = ws.Write(ctx, websocket.MessageText, []byte(`{"stdin":{"close":true}}`))
		}
		if in := <-got; !bytes.Equal(in, want) && len(text) < 1<<20 {
			t.Errorf("the command has read %q, want %q", in, want)
		}
		for err == nil {
			_, _, err = ws.Read(ctx)
		}
		if ctx.Err() != nil {
			t.Error("the session does not end")
		}
	})
}

// FuzzExecOutput answers a user of the client with messages, one per line, and closes the websocket with a
// code. The client returns an exit code of a message, or an error that is no fault of its own.
func FuzzExecOutput(f *testing.F) {
	for _, messages := range []string{
		`{"stderr":{"data":"c2g="}}` + "\n" + `{"stdout":{"data":"aGk="}}` + "\n" + `{"stdout":{"close":true}}` + "\n" +
			`{"exited":true,"result":{"exit_code":7}}`,
		"{}", `{"exited":true}`, `{"exited":true,"result":null}`, `{"result":{"exit_code":1}}`, `{"stdout":{"data":"?"}}`,
		`{"exited":true,"result":{"exit_code":99999999999999999999}}`, "null", "[]", strings.Repeat("[", 20_000),
	} {
		f.Add(messages, uint16(1000), "")
		f.Add(messages, uint16(4409), "the task has ended")
		f.Add(messages, uint16(65535), "\xff")
	}
	type execAnswer struct {
		messages []string
		code     websocket.StatusCode
		reason   string
	}
	var next atomic.Pointer[execAnswer]
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		answer := next.Load()
		for _, m := range answer.messages {
			if ws.Write(r.Context(), websocket.MessageText, []byte(m)) != nil {
				return
			}
		}
		_ = ws.Close(answer.code, answer.reason)
	}))
	f.Cleanup(agent.Close)
	f.Fuzz(func(t *testing.T, messages string, code uint16, reason string) {
		answer := &execAnswer{
			messages: strings.Split(messages, "\n"),
			code:     websocket.StatusCode(code),
			reason:   reason,
		}
		next.Store(answer)
		c := api.NewClient(api.ClientConfig{Address: agent.URL})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := runExec(ctx, c, "here", "", &api.Exec{
			Command: []string{"sh"},
			Stdout:  io.Discard,
			Stderr:  io.Discard,
		})
		if ctx.Err() != nil {
			t.Error("the client does not return")
		}
		if err == nil && !hasResult(answer.messages) {
			t.Error("the client has the result of a command, which no message has")
		}
		sent := code >= 4000 && structs.KindFromHTTP(int(code)-4000) == structs.KindInternal
		if structs.IsKind(err, structs.KindInternal) && !sent {
			t.Errorf("the error is no fault of the client: %v", err)
		}
	})
}

// hasResult reports whether a message has the end of a command.
func hasResult(messages []string) bool {
	for _, m := range messages {
		var out struct {
			Exited bool
			Result *struct{}
		}
		_ = json.Unmarshal([]byte(m), &out)
		if out.Exited && out.Result != nil {
			return true
		}
	}
	return false
}
