package simulate

import (
	"fmt"
	"strings"
)

// plot is one diagram of a panel: numbers of nodes over time.
type plot struct {
	c    *canvas
	top  int
	most int
}

func (p plot) y(n int) float64 {
	return float64(p.top+plotHeight) - plotHeight*float64(n)/float64(p.most)
}

// frame draws the scale.
func (p plot) frame(most int, what string) {
	p.c.printf(`<path class="line" d="M%d %dH%d"/>`, marginLeft, p.top, marginLeft+plotWidth)
	p.c.printf(`<text class="quiet end" x="%d" y="%d">%d</text>`, marginLeft-6, p.top+5, most)
	p.c.printf(`<text class="quiet end" x="%d" y="%d">%s</text>`, marginLeft-6, p.top+plotHeight/2+4, what)
	p.c.printf(`<text class="quiet end" x="%d" y="%d">0</text>`, marginLeft-6, p.top+plotHeight)
}

// base draws the line at 0.
func (p plot) base() {
	p.c.printf(`<path class="line" d="M%d %dH%d"/>`, marginLeft, p.top+plotHeight, marginLeft+plotWidth)
}

// legend says what the colours stand for.
func (p plot) legend(classes, words []string) {
	x := marginLeft
	for i, class := range classes {
		p.c.printf(`<rect class="%s" x="%d" y="%d" width="9" height="9"/><text class="quiet" x="%d" y="%d">%s</text>`,
			class, x, p.top-13, x+13, p.top-4, words[i])
		x += 26 + 7*len(words[i])
	}
}

// area fills what is below a line of steps.
func (p plot) area(class string, timeline []Point, of func(Point) int) {
	line := p.line(timeline, of)
	if line == "" {
		return
	}
	p.c.printf(`<path class="%s" d="M%d %d%sV%dZ"/>`, class, marginLeft, p.top+plotHeight, line, p.top+plotHeight)
}

// outline draws the line of steps alone.
func (p plot) outline(class string, timeline []Point, of func(Point) int) {
	if line := p.line(timeline, of); line != "" {
		p.c.printf(`<path class="%s" d="M%d %d%s"/>`, class, marginLeft, p.top+plotHeight, line)
	}
}

// line is a path of steps, from the left edge to the right. Points within a pixel of each other are drawn as one, with
// the largest number, so that a peak is seen and the drawing stays small.
func (p plot) line(timeline []Point, of func(Point) int) string {
	var b strings.Builder
	last := -1
	for i := 0; i < len(timeline); {
		x, n := p.c.x(timeline[i].At), 0
		j := i
		for ; j < len(timeline) && p.c.x(timeline[j].At)-x < 1; j++ {
			n = max(n, of(timeline[j]))
		}
		if j == len(timeline) {
			n = of(timeline[j-1]) // the end is what stays
		}
		if n != last {
			fmt.Fprintf(&b, "H%sV%s", px(x), px(p.y(n)))
		}
		last, i = n, j
	}
	if last < 0 {
		return ""
	}
	fmt.Fprintf(&b, "H%d", marginLeft+plotWidth)
	return b.String()
}
