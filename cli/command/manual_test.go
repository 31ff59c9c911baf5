package command

import "testing"

func TestText_HasNoRequests(t *testing.T) {
	var p ManualPage
	p.Text(".so /etc/passwd\n'br\na \\fB-x")
	if want := "\\&.so /etc/passwd\n\\&'br\na \\efB\\-x\n"; p.String() != want {
		t.Errorf("got %q, want %q", p.String(), want)
	}
}
