package kit

import (
	"net"
	"slices"
	"strconv"
	"testing"
)

func TestFreePorts_AreConsecutiveAndOfOneTest(t *testing.T) {
	first := FreePorts(t, 3)
	if len(first) != 3 || first[1] != first[0]+1 || first[2] != first[0]+2 {
		t.Errorf("got %v, want three consecutive ports", first)
	}
	if again := reserveAll(t, first[2], 1); again != nil {
		t.Errorf("%v is given to another test", again)
	}
	var ended []int
	t.Run("ends", func(t *testing.T) { ended = FreePorts(t, 2) })
	if again := reserveAll(t, ended[0], 2); !slices.Equal(again, ended) {
		t.Errorf("after the end of their test the ports %v are not free: %v", ended, again)
	}
}

func TestFreePorts_HaveNoListener(t *testing.T) {
	var port int
	t.Run("of another test", func(t *testing.T) { port = FreePorts(t, 1)[0] })
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := reserveAll(t, port, 1); got != nil {
		t.Errorf("port %v has a listener", got)
	}
}
