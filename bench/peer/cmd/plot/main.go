// Command plot draws the results of compare with -kind growth as curves in an SVG: time per operation over
// the size of the fleet, both on logarithmic axes, the peer dashed.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"berth/bench/peer/result"
)

// curve is one path on one side, by size.
type curve struct {
	name   string
	peer   bool
	points [][2]float64
}

// The picture's measures.
const (
	width, height = 860, 520
	left, bottom  = 70, 60
	right, top    = 230, 40
)

var colours = []string{"#1b6ca8", "#c0392b", "#27865b", "#8e44ad", "#b9770e", "#2c3e50", "#16a085", "#7f8c8d",
	"#d35400", "#999900", "#c71585"}

func main() {
	in := flag.String("i", "bin/bench/growth.json", "output of compare")
	out := flag.String("o", "docs/performance.svg", "where the picture goes")
	flag.Parse()
	var measured result.File
	check(result.Read(*in, &measured))
	f, err := os.Create(*out)
	check(err)
	draw(f, curves(measured.Rows))
	check(f.Close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// curves reads names such as "claim or release, R=1000".
func curves(rows []result.Row) []curve {
	var all []curve
	add := func(name string, peer bool, size, ns float64) {
		i := slices.IndexFunc(all, func(c curve) bool {
			return c.name == name && c.peer == peer
		})
		if i < 0 {
			all = append(all, curve{name: name, peer: peer})
			i = len(all) - 1
		}
		if ns > 0 {
			all[i].points = append(all[i].points, [2]float64{size, ns / 1000})
		}
	}
	for _, r := range rows {
		name, size, _ := strings.Cut(r.Name, ", ")
		_, number, _ := strings.Cut(size, "=")
		n, err := strconv.ParseFloat(number, 64)
		check(err)
		add(name, false, n, r.Berth)
		add(name, true, n, r.Peer)
	}
	return slices.DeleteFunc(all, func(c curve) bool {
		return len(c.points) == 0
	})
}

// The axes run from 10 to 100,000 of anything, and from 1 us to 100 ms.
func x(n float64) float64 { return left + (width-left-right)*(math.Log10(n)-1)/4 }
func y(us float64) float64 {
	return height - bottom - (height-bottom-top)*math.Log10(us)/5
}

func draw(w io.Writer, all []curve) {
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"`+
		` font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(w, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height)
	fmt.Fprintf(w, `<text x="%d" y="22" font-size="15">`+
		"Time per operation as the fleet grows (dashed: the peer)</text>\n", left)
	for n := 10.0; n <= 100000; n *= 10 {
		fmt.Fprintf(w, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/>`,
			x(n), top, x(n), height-bottom)
		fmt.Fprintf(w, `<text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+"\n",
			x(n), height-bottom+20, n)
	}
	for i, name := range []string{"1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"} {
		at := y(math.Pow10(i))
		fmt.Fprintf(w, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`,
			left, at, width-right, at)
		fmt.Fprintf(w, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, at+4, name)
	}
	fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="middle">`+
		"nodes (N), claims of one volume (R) or volumes (V)</text>\n", (left+width-right)/2, height-20)
	colour := map[string]string{}
	for _, c := range all {
		if colour[c.name] == "" {
			colour[c.name] = colours[len(colour)%len(colours)]
			at := top + 20*len(colour)
			fmt.Fprintf(w, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="2"/>`,
				width-right+15, at-4, width-right+40, at-4, colour[c.name])
			fmt.Fprintf(w, `<text x="%d" y="%d">%s</text>`+"\n", width-right+46, at, c.name)
		}
		dash := ""
		if c.peer {
			dash = " stroke-dasharray=\"6 4\""
		}
		var points []string
		for _, p := range c.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(max(p[0], 10)), y(p[1])))
		}
		fmt.Fprintf(w, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n",
			strings.Join(points, " "), colour[c.name], dash)
	}
	fmt.Fprintln(w, "</svg>")
}
