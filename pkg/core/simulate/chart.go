package simulate

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The chart's measures, in pixels.
const (
	chartWidth  = 860
	marginLeft  = 110
	marginRight = 20
	plotWidth   = chartWidth - marginLeft - marginRight
	headHeight  = 44 // of the title
	plotHeight  = 96
	laneHeight  = 14
	gap         = 30
	axisHeight  = 30
)

// style has colours of its own for light and dark surroundings; the text's contrast is at least 4.5 to 1 in both.
const style = `
  svg { color-scheme: light dark; font: 12px system-ui, sans-serif }
  .ground { fill: #ffffff } .text { fill: #1f2328 } .quiet { fill: #59636e } .line { stroke: #d1d9e0; fill: none }
  .complete { fill: #2da44e } .progress { fill: #388bfd } .failed { fill: #cf222e } .out { fill: #9a6700 }
  .outLine { stroke: #9a6700; stroke-width: 2; fill: none }
  .ceiling { stroke: #8250df; stroke-width: 1.5; stroke-dasharray: 6 4; fill: none } .ceilingText { fill: #8250df }
  .good { fill: #2da44e } .tolerated { fill: #bf8700 } .bad, .halt { fill: #cf222e } .open { fill: #8c959f }
  .head { font-size: 14px; font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .text { fill: #f0f6fc } .quiet { fill: #9198a1 } .line { stroke: #3d444d }
    .complete, .good { fill: #3fb950 } .progress { fill: #58a6ff } .failed, .bad, .halt { fill: #f85149 }
    .out, .tolerated { fill: #d29922 } .outLine { stroke: #d29922 } .ceiling { stroke: #bc8cff } .ceilingText { fill: #bc8cff } .open { fill: #656c76 }
  }
`

// Chart draws the result as SVG: for each NodeWright its nodes by state over time; those that are at work, with the ceiling
// of all compartments as a line; and a lane for each compartment with its batches. It refers to nothing outside, and equal
// results give equal bytes.
func Chart(r Result) string {
	end := Offset(1)
	for _, o := range r.Rollouts {
		end = max(end, o.End)
		if n := len(o.Timeline); n > 0 {
			end = max(end, o.Timeline[n-1].At)
		}
	}
	c := &canvas{end: max(end, r.End)}
	c.y = headHeight / 2
	for _, o := range r.Rollouts {
		c.rollout(o)
	}
	var words []string
	for _, o := range r.Rollouts {
		words = append(words, "NodeWright "+o.NodeWright+": "+o.headline()+".")
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-labelledby="title desc">
<title id="title">Simulated rollout over %[3]s</title>
<desc id="desc">%[4]s</desc>
<style>%[5]s</style>
<rect class="ground" width="%[1]d" height="%[2]d"/>
%[6]s</svg>
`, chartWidth, c.y, plural(r.Nodes, "node"), escape(strings.Join(words, " ")), style, c.b.String())
}

// canvas draws from top to bottom.
type canvas struct {
	b   strings.Builder
	y   int
	end Offset
}

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

// rollout draws the panel of one NodeWright.
func (c *canvas) rollout(o Rollout) {
	c.printf(`<g><text class="text head" x="%d" y="%d">%s</text>`, marginLeft, c.y+6, escape(o.NodeWright))
	c.printf(`<text class="quiet" x="%d" y="%d">%s</text>`, marginLeft, c.y+24, escape(o.headline()))
	c.y += headHeight
	if o.Outcome == NoNodes {
		c.printf(`</g>`)
		return
	}
	c.states(o)
	c.y += gap
	c.work(o)
	c.y += gap / 2
	for _, lane := range o.Compartments {
		if len(lane.Batches) > 0 {
			c.lane(lane)
		}
	}
	c.axis()
	c.printf(`</g>`)
}

// states stacks complete and failed nodes, and those in progress on top of them.
func (c *canvas) states(o Rollout) {
	p := plot{c: c, top: c.y, most: max(1, o.Total)}
	c.y += plotHeight
	p.frame(o.Total, "nodes")
	p.legend([]string{"complete", "failed", "progress"}, []string{"complete", "failed", "in progress"})
	p.area("progress", o.Timeline, func(t Point) int { return t.Complete + t.Failed + t.InProgress })
	p.area("failed", o.Timeline, func(t Point) int { return t.Complete + t.Failed })
	p.area("complete", o.Timeline, func(t Point) int { return t.Complete })
	p.base()
}

// work shows the nodes at work and out of service under the ceiling.
func (c *canvas) work(o Rollout) {
	peak := 0
	for _, t := range o.Timeline {
		peak = max(peak, t.InProgress, t.OutOfService)
	}
	ceiling := o.Ceiling()
	p := plot{c: c, top: c.y, most: max(1, peak, min(ceiling, 3*max(1, peak)))}
	c.y += plotHeight
	p.frame(p.most, "at once")
	p.legend([]string{"progress", "out"}, []string{"in progress", "out of service"})
	p.area("progress", o.Timeline, func(t Point) int { return t.InProgress })
	p.outline("outLine", o.Timeline, func(t Point) int { return t.OutOfService })
	if ceiling <= p.most {
		y := p.y(ceiling)
		c.printf(`<path class="ceiling" d="M%d %sH%d"/>`, marginLeft, px(y), marginLeft+plotWidth)
	}
	place := "ceiling %d"
	if ceiling > p.most {
		place = "ceiling %d, above the chart"
	}
	c.printf(`<text class="ceilingText end" x="%d" y="%d">`+place+`</text>`, marginLeft+plotWidth, p.top-4, ceiling)
	p.base()
}

// lane draws the batches of one compartment as bands. Batches too narrow to be seen are drawn as one.
func (c *canvas) lane(lane Compartment) {
	c.printf(`<text class="quiet end" x="%d" y="%d">%s</text>`, marginLeft-6, c.y+laneHeight-3, escape(short(lane.Name)))
	for _, b := range bands(lane.Batches, c.x) {
		opacity := "0.85"
		if b.number%2 == 0 {
			opacity = "0.55"
		}
		width := max(1, b.to-b.from)
		c.printf(`<rect class="%s" fill-opacity="%s" x="%s" y="%d" width="%s" height="%d"><title>%s</title></rect>`,
			b.verdict, opacity, px(b.from), c.y, px(width), laneHeight-2, escape(b.title))
		if b.size > 0 && width >= 18 {
			c.printf(`<text class="text middle" font-size="10" x="%s" y="%d">%d</text>`, px(b.from+width/2), c.y+laneHeight-4, b.size)
		}
	}
	c.y += laneHeight
}

// band is one or several batches in a lane.
type band struct {
	from, to float64
	verdict  Verdict
	number   int
	size     int // 0: several batches
	title    string
}

func bands(batches []Batch, x func(Offset) float64) []band {
	const narrow = 3
	var out []band
	for _, b := range batches {
		next := band{
			from: x(b.Begin), to: x(b.End), verdict: b.Verdict, number: b.Number, size: len(b.Nodes),
			title: fmt.Sprintf("batch %d: %s, %s to %s, %s", b.Number, plural(len(b.Nodes), "node"), clockTime(b.Begin), clockTime(b.End), b.Verdict),
		}
		if n := len(out) - 1; n >= 0 && out[n].verdict == b.Verdict && next.to-out[n].from < narrow {
			out[n].to, out[n].size, out[n].title = next.to, 0, "several batches until "+clockTime(b.End)+", "+string(b.Verdict)
			continue
		}
		out = append(out, next)
	}
	return out
}

// axis draws the time below a panel.
func (c *canvas) axis() {
	step := tickStep(time.Duration(c.end))
	for at := time.Duration(0); at <= time.Duration(c.end); at += step {
		x := c.x(Offset(at))
		c.printf(`<path class="line" d="M%s %dv4"/><text class="quiet middle" x="%s" y="%d">%s</text>`, px(x), c.y+2, px(x), c.y+18, tickText(at))
	}
	c.y += axisHeight + headHeight/2
}

func (c *canvas) x(o Offset) float64 {
	return marginLeft + plotWidth*float64(o)/float64(max(1, c.end))
}

// tickStep is a round time of which about six to eight fit.
func tickStep(total time.Duration) time.Duration {
	for _, s := range []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
	} {
		if total/s <= 8 {
			return s
		}
	}
	return max(28*24*time.Hour, total/8)
}

func tickText(at time.Duration) string {
	switch {
	case at == 0:
		return "0"
	case at%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", at/(24*time.Hour))
	case at >= time.Hour && at%time.Hour == 0:
		return fmt.Sprintf("%dh", at/time.Hour)
	case at%time.Minute == 0:
		return strings.TrimSuffix(at.String(), "0s")
	}
	return at.String()
}

// px is a coordinate to a tenth of a pixel.
func px(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", math.Round(v*10)/10), ".0")
}

func short(name string) string {
	const most = 15
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
